#include <algorithm>
#include <utility>

#include "compiler/partition/values.hpp"
#include "compiler/placement/bucket.hpp"

namespace strata::host {
namespace {

/// Converts one value step by step, and tracks its current buffer and layout.
class Conversion {
 public:
  Conversion(ProgramBuilder& builder, const LayoutRules& rules, const ConversionRequest& request,
             std::vector<Instruction>& instructions)
      : builder_(builder),
        rules_(rules),
        request_(request),
        instructions_(instructions),
        current_(request.from),
        buffer_(request.buffer) {}

  BufferId run() {
    resolve_partial();
    remove_axes();
    slice_to_target();
    return buffer_;
  }

 private:
  /// True if `axis` is the next axis that dim `i` needs to reach the target layout.
  [[nodiscard]] bool target_extends(std::size_t i, const Axis& axis) const {
    const auto& have = current_[i];
    const auto& want = request_.to[i];
    return want.size() > have.size() && std::equal(have.begin(), have.end(), want.begin()) && want[have.size()] == axis;
  }

  [[nodiscard]] int dim_that_takes(const Axis& axis, int except) const {
    for (std::size_t i = 0; i < current_.size(); ++i) {
      if (static_cast<int>(i) != except && target_extends(i, axis)) return static_cast<int>(i);
    }
    return -1;
  }

  void resolve_partial() {
    AxisSet remaining;  // resolved together by one all_reduce
    for (const MeshAxis& axis : rules_.mesh().axes()) {
      if (!request_.partial.contains(axis.name)) continue;
      if (dim_that_takes(axis.name, -1) < 0) {
        remaining.insert(axis.name);
        continue;
      }
      reduce_scatter(axis.name, static_cast<std::size_t>(dim_that_takes(axis.name, -1)));
    }
    if (!remaining.empty()) all_reduce(in_mesh_order(builder_.mesh(), remaining));
  }

  void remove_axes() {
    for (std::size_t i = 0; i < current_.size(); ++i) {
      const auto is_prefix = [&] {
        return current_[i].size() <= request_.to[i].size() &&
               std::equal(current_[i].begin(), current_[i].end(), request_.to[i].begin());
      };
      while (!is_prefix()) {
        const Axis axis = current_[i].back();
        const int taker = dim_that_takes(axis, static_cast<int>(i));
        if (taker >= 0) {
          all_to_all(axis, i, static_cast<std::size_t>(taker));
        } else {
          all_gather(axis, i);
        }
      }
    }
  }

  void slice_to_target() {
    for (std::size_t i = 0; i < current_.size(); ++i) {
      while (current_[i].size() < request_.to[i].size()) slice(request_.to[i][current_[i].size()], i);
    }
  }

  // --- one function per step

  void all_reduce(const std::vector<Axis>& axes) {
    collective(CollectiveKind::all_reduce, axes, "", new_buffer(BufferKind::activation));
  }

  void reduce_scatter(const Axis& axis, std::size_t dim) {
    pack(axis, dim);
    current_[dim].push_back(axis);
    collective(CollectiveKind::reduce_scatter, {axis}, request_.dims[dim], new_buffer(BufferKind::activation));
  }

  void all_gather(const Axis& axis, std::size_t dim) {
    current_[dim].pop_back();
    const bool contiguous = pieces_are_contiguous(axis, dim);
    collective(CollectiveKind::all_gather, {axis}, request_.dims[dim],
               new_buffer(contiguous ? BufferKind::activation : BufferKind::communication));
    if (!contiguous) unpack(axis, dim);
  }

  void all_to_all(const Axis& axis, std::size_t gathered, std::size_t split) {
    pack(axis, split);
    current_[gathered].pop_back();
    current_[split].push_back(axis);
    const bool contiguous = pieces_are_contiguous(axis, gathered);
    collective(CollectiveKind::all_to_all, {axis}, request_.dims[gathered] + ">" + request_.dims[split],
               new_buffer(contiguous ? BufferKind::activation : BufferKind::communication));
    if (!contiguous) unpack(axis, gathered);
  }

  void slice(const Axis& axis, std::size_t dim) {
    Instruction instruction = copy(Copy::Kind::slice, axis, dim);
    current_[dim].push_back(axis);
    push(std::move(instruction), new_buffer(BufferKind::activation));
  }

  /// Packs `dim` so that the piece of each rank of `axis` is contiguous, as collectives require.
  void pack(const Axis& axis, std::size_t dim) {
    if (pieces_are_contiguous(axis, dim)) return;
    push(copy(Copy::Kind::pack, axis, dim), new_buffer(BufferKind::communication));
  }

  void unpack(const Axis& axis, std::size_t dim) {
    push(copy(Copy::Kind::unpack, axis, dim), new_buffer(BufferKind::activation));
  }

  // --- helpers

  [[nodiscard]] Shape shape() const { return rules_.local_shape(request_.dims, current_); }

  [[nodiscard]] bool pieces_are_contiguous(const Axis& axis, std::size_t dim) const {
    const Shape sizes = shape();
    return rules_.distribution(request_.dims[dim], axis) == Distribution::block &&
           std::all_of(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(dim),
                       [](std::int64_t size) { return size == 1; });
  }

  [[nodiscard]] BufferId new_buffer(BufferKind kind) {
    return builder_.add_buffer(request_.label + " as " + to_string(request_.dims, current_), kind,
                               builder_.buffer(buffer_).dtype, request_.dims, shape());
  }

  void collective(CollectiveKind kind, const std::vector<Axis>& axes, const std::string& dim, BufferId output) {
    const std::string name =
        request_.label + " " + std::string(to_string(kind)) + " " + (dim.empty() ? "" : dim + "/") + join(axes, "+");
    const Collective work{
        .kind = kind, .reduction = request_.reduction, .axes = axes, .content = BufferKind::activation};
    push(builder_.collective(work, buffer_, output, name), output);
  }

  /// A copy that divides `dim` over `axis`. In the current layout `dim` is whole along that axis.
  [[nodiscard]] Instruction copy(Copy::Kind kind, const Axis& axis, std::size_t dim) {
    const Shape sizes = shape();
    Copy work{.kind = kind, .size = sizes[dim], .axis = {axis, rules_.distribution(request_.dims[dim], axis)}};
    for (std::size_t i = 0; i < dim; ++i) work.outer *= sizes[i];
    for (std::size_t i = dim + 1; i < sizes.size(); ++i) work.inner *= sizes[i];
    return {.name = request_.label + " " + request_.dims[dim] + "/" + axis, .work = std::move(work)};
  }

  /// Appends an instruction from the value's buffer to `output`, which becomes the value's buffer.
  void push(Instruction instruction, BufferId output) {
    instruction.inputs = {buffer_};
    instruction.outputs = {output};
    instructions_.push_back(std::move(instruction));
    buffer_ = output;
  }

  ProgramBuilder& builder_;
  const LayoutRules& rules_;
  const ConversionRequest& request_;
  std::vector<Instruction>& instructions_;
  Layout current_;
  BufferId buffer_;
};

}  // namespace

BufferId emit_conversion(ProgramBuilder& builder, const LayoutRules& rules, const ConversionRequest& request,
                         std::vector<Instruction>& instructions) {
  return Conversion(builder, rules, request, instructions).run();
}

}  // namespace strata::host
