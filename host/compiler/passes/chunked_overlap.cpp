#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/passes/passes.hpp"

namespace strata::host {
namespace {

/// Views of the parts of buffers by (whole, count, part). Tasks share the views, because one task may write a value in
/// parts that another task reads.
using Views = std::map<std::tuple<BufferId, int, int>, BufferId>;

/// Rewrites one task. At this point every buffer is written once per micro-batch, so an instruction may move towards
/// its first reader.
class TaskOverlap {
 public:
  TaskOverlap(ProgramBuilder& builder, const OpRegistry& registry, Task& task, const std::map<Axis, int>& chunks,
              Views& views)
      : builder_(builder),
        registry_(registry),
        task_(task),
        chunks_(chunks),
        views_(views),
        replaced_(task.instructions.size()) {
    for (std::size_t at = 0; at < task.instructions.size(); ++at) {
      for (const BufferId input : task.instructions[at].inputs) readers_[input].push_back(at);
      for (const BufferId output : task.instructions[at].outputs) writer_[output] = at;
    }
  }

  void run() {
    for (std::size_t at = 0; at < task_.instructions.size(); ++at) {
      const auto* each = task_.instructions[at].as<Collective>();
      if (each == nullptr || each->axes.size() != 1 || !chunks_.contains(each->axes[0])) continue;
      if (each->kind == CollectiveKind::all_gather) {
        overlap_with_reader(at);
      } else if (each->kind == CollectiveKind::all_reduce || each->kind == CollectiveKind::reduce_scatter) {
        overlap_with_writer(at);
      }
    }
    std::vector<Instruction> result;
    for (std::size_t at = 0; at < task_.instructions.size(); ++at) {
      if (!replaced_[at]) {
        result.push_back(std::move(task_.instructions[at]));
        continue;
      }
      for (Instruction& each : *replaced_[at]) result.push_back(std::move(each));
    }
    task_.instructions = std::move(result);
  }

 private:
  using Parts = std::vector<Instruction>;

  /// product -> (pack) -> collective   becomes   product 0, collective 0, product 1, collective 1, …
  void overlap_with_writer(std::size_t collective) {
    std::optional<std::size_t> pack;
    std::optional<std::size_t> writer = sole_writer(task_.instructions[collective].inputs[0], collective);
    if (writer && is_copy(*writer)) {
      pack = writer;
      writer = sole_writer(task_.instructions[*pack].inputs[0], *pack);
    }
    if (!writer || !is_product(*writer)) return;
    const int count = part_count(*writer, collective, pack);
    if (count < 2) return;
    Parts parts;
    for (int part = 0; part < count; ++part) {
      parts.push_back(part_of_product(*writer, part, count));
      BufferId made = parts.back().outputs[0];
      if (pack) made = append_copy(parts, *pack, made, whole_part(*pack, part, count));
      parts.push_back(part_of_collective(collective, made, part, count,
                                         view(task_.instructions[collective].outputs[0], part, count)));
    }
    replaced_[*writer].emplace();
    if (pack) replaced_[*pack].emplace();
    replaced_[collective] = std::move(parts);
  }

  /// all_gather -> (unpack) -> product   becomes   all_gather 0, all_gather 1, …, product 0, product 1, …
  void overlap_with_reader(std::size_t collective) {
    BufferId gathered = task_.instructions[collective].outputs[0];
    std::optional<std::size_t> unpack;
    std::optional<std::size_t> reader = first_reader(gathered);
    if (reader && is_copy(*reader) && readers_[gathered].size() == 1) {
      unpack = reader;
      gathered = task_.instructions[*unpack].outputs[0];
      reader = first_reader(gathered);
    }
    const bool feeds =
        reader && is_product(*reader) && task_.instructions[*reader].inputs[0] == gathered && !replaced_[*reader];
    if (!feeds) return;
    const int count = part_count(*reader, collective, unpack);
    if (count < 2) return;
    Parts starts;
    Parts parts;
    for (int part = 0; part < count; ++part) {
      const BufferId from = view(task_.instructions[collective].inputs[0], part, count);
      const BufferId arrives = unpack ? whole_part(collective, part, count) : view(gathered, part, count);
      starts.push_back(part_of_collective(collective, from, part, count, arrives));
      if (unpack) append_copy(parts, *unpack, arrives, view(gathered, part, count));
      parts.push_back(part_of_product(*reader, part, count));
    }
    replaced_[collective] = std::move(starts);
    if (unpack) replaced_[*unpack].emplace();
    replaced_[*reader] = std::move(parts);
  }

  // --- neighbours

  [[nodiscard]] bool is_copy(std::size_t at) const { return task_.instructions[at].is<Copy>(); }

  /// True for a product that can be split: its first operand and all results begin with the same dimension, and every
  /// other operand begins with that dimension or lacks it.
  [[nodiscard]] bool is_product(std::size_t at) const {
    const auto* each = task_.instructions[at].as<Compute>();
    if (each == nullptr || each->accumulate || !registry_.has(each->op) || !registry_.get(each->op).is_product()) {
      return false;
    }
    if (each->operand_dims.size() < 2 || each->operand_dims[0].empty()) return false;
    const Dim& rows = each->operand_dims[0].front();
    const auto begins = [&](const Dims& dims) { return !dims.empty() && dims.front() == rows; };
    const auto fits = [&](const Dims& dims) { return begins(dims) || !contains(dims, rows); };
    return !contains(each->operand_dims[1], rows) && std::ranges::all_of(each->operand_dims, fits) &&
           std::ranges::all_of(each->result_dims, begins);
  }

  [[nodiscard]] std::optional<std::size_t> sole_writer(BufferId buffer, std::size_t reader) const {
    const auto writer = writer_.find(buffer);
    if (writer == writer_.end() || replaced_[writer->second] || builder_.buffer(buffer).persistent) return std::nullopt;
    const auto& readers = readers_.at(buffer);
    return readers.size() == 1 && readers.front() == reader ? std::optional(writer->second) : std::nullopt;
  }

  [[nodiscard]] std::optional<std::size_t> first_reader(BufferId buffer) const {
    const auto readers = readers_.find(buffer);
    return readers == readers_.end() ? std::nullopt : std::optional(readers->second.front());
  }

  /// The largest number up to the wanted one that divides the first dimension, which all split buffers share.
  [[nodiscard]] int part_count(std::size_t product, std::size_t collective, std::optional<std::size_t> copy) const {
    const Instruction& compute = task_.instructions[product];
    const Instruction& communication = task_.instructions[collective];
    const std::int64_t rows = builder_.buffer(compute.outputs[0]).shape.front();
    for (const BufferId each : {compute.inputs[0], communication.inputs[0], communication.outputs[0]}) {
      if (builder_.buffer(each).shape.front() != rows) return 1;
    }
    if (copy && task_.instructions[*copy].as<Copy>()->outer % rows != 0) return 1;
    for (int count = chunks_.at(communication.as<Collective>()->axes[0]); count > 1; --count) {
      if (rows % count == 0 && !is_cut_otherwise(compute, count)) return count;
    }
    return 1;
  }

  /// True if an operand is already split into another number of parts.
  [[nodiscard]] bool is_cut_otherwise(const Instruction& instruction, int count) const {
    return std::ranges::any_of(instruction.inputs, [&](BufferId input) {
      const auto first = views_.lower_bound({input, 0, 0});
      return first != views_.end() && std::get<0>(first->first) == input && std::get<1>(first->first) != count;
    });
  }

  // --- parts

  BufferId view(BufferId whole, int part, int count) {
    const auto known = views_.find({whole, count, part});
    if (known != views_.end()) return known->second;
    const Buffer source = builder_.buffer(whole);
    const BufferId made = new_part(source, part, count);
    builder_.make_view(made, whole, source.elements() / count * part);
    views_[{whole, count, part}] = made;
    return made;
  }

  BufferId new_part(const Buffer& whole, int part, int count) {
    Shape shape = whole.shape;
    shape.front() /= count;
    return builder_.add_buffer(whole.name + " part " + std::to_string(part), whole.kind, whole.dtype, whole.dims,
                               shape);
  }

  /// A separate buffer for one part of an instruction's output. A view does not work here, because packed pieces of one
  /// part are not contiguous in the packed whole.
  BufferId whole_part(std::size_t at, int part, int count) {
    return new_part(Buffer(builder_.buffer(task_.instructions[at].outputs[0])), part, count);
  }

  Instruction part_of_product(std::size_t at, int part, int count) {
    Instruction made = task_.instructions[at];
    Compute& work = *made.as<Compute>();
    const Dim& dim = work.result_dims[0].front();
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      if (find_dim(work.operand_dims[i], dim) == 0) made.inputs[i] = view(made.inputs[i], part, count);
    }
    for (BufferId& output : made.outputs) output = view(output, part, count);
    for (ShardedDim& each : work.iteration) {
      if (each.dim == dim) each.global_size /= count;
    }
    return made;
  }

  Instruction part_of_collective(std::size_t at, BufferId input, int part, int count, BufferId output) {
    Instruction made = task_.instructions[at];
    made.name += " part " + std::to_string(part) + " of " + std::to_string(count);
    made.as<Collective>()->id = builder_.communication_id(made.name);
    made.inputs = {input};
    made.outputs = {output};
    return made;
  }

  BufferId append_copy(Parts& parts, std::size_t at, BufferId input, BufferId output) {
    Instruction made = task_.instructions[at];
    const std::int64_t fraction =
        builder_.buffer(task_.instructions[at].inputs[0]).elements() / builder_.buffer(input).elements();
    made.as<Copy>()->outer /= fraction;
    made.inputs = {input};
    made.outputs = {output};
    parts.push_back(std::move(made));
    return output;
  }

  ProgramBuilder& builder_;
  const OpRegistry& registry_;
  Task& task_;
  const std::map<Axis, int>& chunks_;
  Views& views_;
  /// The instructions that replace each instruction; empty if it stays.
  std::vector<std::optional<Parts>> replaced_;
  std::map<BufferId, std::vector<std::size_t>> readers_;
  std::map<BufferId, std::size_t> writer_;
};

}  // namespace

void overlap_in_chunks(ProgramBuilder& builder, const OpRegistry& registry, const std::map<Axis, int>& chunks) {
  if (chunks.empty()) return;
  Views views;
  for (Task& task : builder.program().tasks) TaskOverlap(builder, registry, task, chunks, views).run();
}

}  // namespace strata::host
