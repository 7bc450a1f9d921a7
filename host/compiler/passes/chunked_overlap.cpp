#include "compiler/passes/chunked_overlap.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace strata::host {
namespace {

/// The product and its fused forms.
constexpr std::array<std::string_view, 4> kProducts = {"linear", "linear_bias", "linear_bias_activation",
                                                       "linear_activation_gradient"};

/// The parts of buffers by (whole, count, part). Tasks share them: what one has written in parts another reads in the
/// same ones.
using Views = std::map<std::tuple<BufferId, int, int>, BufferId>;

/// Rewrites one task. Buffers are still written once a micro-batch here, so an instruction may be moved towards its
/// first reader.
class TaskOverlap {
 public:
  TaskOverlap(ProgramBuilder& builder, Task& task, const std::map<Axis, int>& chunks, Views& views)
      : builder_(builder), task_(task), chunks_(chunks), views_(views), replaced_(task.instructions.size()) {
    for (std::size_t at = 0; at < task.instructions.size(); ++at) {
      for (const BufferId input : task.instructions[at].inputs) readers_[input].push_back(at);
      for (const BufferId output : task.instructions[at].outputs) writer_[output] = at;
    }
  }

  void run() {
    for (std::size_t at = 0; at < task_.instructions.size(); ++at) {
      const Instruction& each = task_.instructions[at];
      if (each.kind != InstructionKind::collective || each.axes.size() != 1 || !chunks_.contains(each.axes[0]))
        continue;
      if (each.collective == CollectiveKind::all_gather) {
        overlap_with_reader(at);
      } else if (each.collective == CollectiveKind::all_reduce || each.collective == CollectiveKind::reduce_scatter) {
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

  // --- what stands where

  [[nodiscard]] bool is_copy(std::size_t at) const { return task_.instructions[at].kind == InstructionKind::copy; }

  [[nodiscard]] bool is_product(std::size_t at) const {
    const Instruction& each = task_.instructions[at];
    return each.kind == InstructionKind::compute &&
           std::find(kProducts.begin(), kProducts.end(), each.op) != kProducts.end() && !each.accumulate &&
           each.operand_dims[0].front() == each.result_dims[0].front() &&
           find_dim(each.operand_dims[1], each.operand_dims[0].front()) < 0;
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

  /// As many parts as were asked for, or the most below that divide the first dimension, which all that is cut shares.
  [[nodiscard]] int part_count(std::size_t product, std::size_t collective, std::optional<std::size_t> copy) const {
    const Instruction& compute = task_.instructions[product];
    const Instruction& communication = task_.instructions[collective];
    const std::int64_t rows = builder_.buffer(compute.outputs[0]).shape.front();
    for (const BufferId each : {compute.inputs[0], communication.inputs[0], communication.outputs[0]}) {
      if (builder_.buffer(each).shape.front() != rows) return 1;
    }
    if (copy && task_.instructions[*copy].copy.outer % rows != 0) return 1;
    for (int count = chunks_.at(communication.axes[0]); count > 1; --count) {
      if (rows % count == 0 && !is_cut_otherwise(compute, count)) return count;
    }
    return 1;
  }

  /// Whether another number of parts of an operand is in use.
  [[nodiscard]] bool is_cut_otherwise(const Instruction& instruction, int count) const {
    return std::any_of(instruction.inputs.begin(), instruction.inputs.end(), [&](BufferId input) {
      const auto first = views_.lower_bound({input, 0, 0});
      return first != views_.end() && std::get<0>(first->first) == input && std::get<1>(first->first) != count;
    });
  }

  // --- parts

  BufferId view(BufferId whole, int part, int count) {
    const auto known = views_.find({whole, count, part});
    if (known != views_.end()) return known->second;
    const Buffer of = builder_.buffer(whole);
    const BufferId made = new_part(of, part, count);
    builder_.make_view(made, whole, of.elements() / count * part);
    views_[{whole, count, part}] = made;
    return made;
  }

  BufferId new_part(const Buffer& of, int part, int count) {
    Shape shape = of.shape;
    shape.front() /= count;
    return builder_.add_buffer(of.name + " part " + std::to_string(part), of.kind, of.dtype, of.dims, shape);
  }

  /// A buffer of its own for a part of what an instruction writes: packed pieces of several parts do not lie one behind
  /// the other as those of the whole do.
  BufferId whole_part(std::size_t at, int part, int count) {
    return new_part(Buffer(builder_.buffer(task_.instructions[at].outputs[0])), part, count);
  }

  Instruction part_of_product(std::size_t at, int part, int count) {
    Instruction made = task_.instructions[at];
    const Dim& dim = made.result_dims[0].front();
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      if (find_dim(made.operand_dims[i], dim) == 0) made.inputs[i] = view(made.inputs[i], part, count);
    }
    for (BufferId& output : made.outputs) output = view(output, part, count);
    for (ShardedDim& each : made.iteration) {
      if (each.dim == dim) each.global_size /= count;
    }
    return made;
  }

  Instruction part_of_collective(std::size_t at, BufferId input, int part, int count, BufferId output) {
    Instruction made = task_.instructions[at];
    made.name += " part " + std::to_string(part) + " of " + std::to_string(count);
    made.id = builder_.communication_id(made.name);
    made.inputs = {input};
    made.outputs = {output};
    return made;
  }

  BufferId append_copy(Parts& parts, std::size_t at, BufferId input, BufferId output) {
    Instruction made = task_.instructions[at];
    const std::int64_t fraction =
        builder_.buffer(task_.instructions[at].inputs[0]).elements() / builder_.buffer(input).elements();
    made.copy.outer /= fraction;
    made.inputs = {input};
    made.outputs = {output};
    parts.push_back(std::move(made));
    return output;
  }

  ProgramBuilder& builder_;
  Task& task_;
  const std::map<Axis, int>& chunks_;
  Views& views_;
  /// What stands in the place of an instruction; nothing where it stays.
  std::vector<std::optional<Parts>> replaced_;
  std::map<BufferId, std::vector<std::size_t>> readers_;
  std::map<BufferId, std::size_t> writer_;
};

}  // namespace

void overlap_in_chunks(ProgramBuilder& builder) {
  std::map<Axis, int> chunks;
  for (const NamedStrategy& each : builder.strategies()) {
    if (const auto wanted = each.strategy->chunked_overlap()) chunks[wanted->axis] = wanted->chunks;
  }
  if (chunks.empty()) return;
  Views views;
  for (Task& task : builder.program().tasks) TaskOverlap(builder, task, chunks, views).run();
}

}  // namespace strata::host
