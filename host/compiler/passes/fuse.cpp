#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/task_uses.hpp"
#include "compiler/program/instructions.hpp"

namespace strata::host {
namespace {

/// A fused op with one of its patterns.
struct Fusion {
  std::string op;
  FusionPattern pattern;
};

/// Patterns by the op of their consumer. Equal keys are in the order of the fused ops' names.
using Fusions = std::multimap<std::string, Fusion>;

Fusions all_fusions(const OpRegistry& registry) {
  Fusions fusions;
  for (const std::string& name : registry.names()) {
    for (const FusionPattern& pattern : registry.get(name).fusions()) {
      fusions.emplace(pattern.consumer, Fusion{name, pattern});
    }
  }
  return fusions;
}

/// Fuses within one task.
class TaskFuser {
 public:
  TaskFuser(Program& program, const OpRegistry& registry, const Fusions& fusions, const Device& device, Task& task)
      : program_(program),
        registry_(registry),
        fusions_(fusions),
        device_(device),
        instructions_(task.instructions),
        removed_(task.instructions.size(), false),
        uses_(program, task) {}

  void run() {
    for (std::size_t at = 0; at < instructions_.size(); ++at) {
      if (removed_[at] || !instructions_[at].is<Compute>()) continue;
      // The device refuses an op that nobody registered.
      if (const std::string& op = compute(at).op; registry_.has(op) && registry_.get(op).is_sum()) fuse_sum(at);
      if (!removed_[at]) fuse_pair(at);
    }
    std::vector<Instruction> kept;
    for (std::size_t at = 0; at < instructions_.size(); ++at) {
      if (!removed_[at]) kept.push_back(std::move(instructions_[at]));
    }
    instructions_ = std::move(kept);
  }

 private:
  [[nodiscard]] const Compute& compute(std::size_t at) const { return *instructions_[at].as<Compute>(); }

  /// True if the device has a kernel for the instruction that is not a last resort.
  [[nodiscard]] bool is_supported(const Instruction& instruction) const {
    const OpInstance instance = describe_instruction(program_, instruction, program_.mesh.coordinates(0), 0);
    const auto choice = device_.kernel_choice(instance);
    return choice && !choice->is_last_resort;
  }

  /// Position of the only instruction that writes `buffer`. Empty if it is in another task or has other outputs.
  [[nodiscard]] std::optional<std::size_t> sole_writer(BufferId buffer) const {
    const std::vector<std::size_t>& writers = uses_.writers(buffer);
    if (writers.size() != 1 || is_persistent(buffer)) return std::nullopt;
    const Instruction& writer = instructions_[writers.front()];
    const bool fits = !removed_[writers.front()] && writer.is<Compute>() && writer.outputs.size() == 1 &&
                      !writer.as<Compute>()->accumulate;
    return fits ? std::optional(writers.front()) : std::nullopt;
  }

  /// True for persistent memory and views of it. Its contents are read after the task.
  [[nodiscard]] bool is_persistent(BufferId buffer) const { return program_.buffer(program_.root(buffer)).persistent; }

  // --- pairs

  /// Applies the first pattern that has the instruction as its consumer and fits.
  void fuse_pair(std::size_t consumer) {
    const auto [begin, end] = fusions_.equal_range(compute(consumer).op);
    for (auto each = begin; each != end; ++each) {
      if (fuse_pair(consumer, each->second)) return;
    }
  }

  bool fuse_pair(std::size_t consumer, const Fusion& fusion) {
    const FusionPattern& pattern = fusion.pattern;
    const Instruction& second = instructions_[consumer];
    const auto operand = static_cast<std::size_t>(pattern.operand);
    if (compute(consumer).accumulate || operand >= second.inputs.size()) return false;
    const BufferId product = second.inputs[operand];
    const auto producer = sole_writer(product);
    if (!producer || compute(*producer).op != pattern.producer) return false;
    if (instructions_[*producer].occurrence != second.occurrence) return false;
    if (instructions_[*producer].when != second.when) return false;
    const bool keeps_product = !uses_.is_read_only_at(product, consumer);
    if (keeps_product && !pattern.can_keep_product) return false;
    const auto iteration = common_iteration(compute(*producer), compute(consumer));
    if (!iteration) return false;
    const auto attributes =
        pattern.fit({compute(*producer).attributes, compute(consumer).attributes, compute(*producer).operand_dims,
                     compute(consumer).operand_dims, keeps_product});
    if (!attributes) return false;
    Instruction fused = fused_instruction(*producer, consumer, fusion, keeps_product);
    fused.as<Compute>()->attributes = *attributes;
    fused.as<Compute>()->iteration = *iteration;
    const auto place = place_of(*producer, consumer, pattern, keeps_product);
    if (!place || !is_supported(fused)) return false;
    replace(*producer, consumer, *place, std::move(fused));
    return true;
  }

  /// The dimensions of both loop nests. Empty if one dimension is sharded differently in them, or if only one of the
  /// ops is on flat buffers.
  [[nodiscard]] static std::optional<std::vector<ShardedDim>> common_iteration(const Compute& producer,
                                                                               const Compute& consumer) {
    if (producer.result_dims.empty() != consumer.result_dims.empty()) return std::nullopt;
    std::vector<ShardedDim> iteration = producer.iteration;
    for (const ShardedDim& dim : consumer.iteration) {
      const auto same = std::ranges::find(iteration, dim.dim, &ShardedDim::dim);
      if (same == iteration.end()) {
        iteration.push_back(dim);
      } else if (*same != dim) {
        return std::nullopt;
      }
    }
    return iteration;
  }

  /// The fused instruction: the producer's operands, then the consumer's other operands; the consumer's results.
  [[nodiscard]] Instruction fused_instruction(std::size_t producer, std::size_t consumer, const Fusion& fusion,
                                              bool keeps_product) const {
    Instruction fused = instructions_[producer];
    const Instruction& second = instructions_[consumer];
    Compute& work = *fused.as<Compute>();
    const Compute& second_work = compute(consumer);
    const bool is_flat = second_work.result_dims.empty();
    work.op = fusion.op;
    for (std::size_t i = 0; i < second.inputs.size(); ++i) {
      if (static_cast<int>(i) == fusion.pattern.operand) continue;
      fused.inputs.push_back(second.inputs[i]);
      if (!is_flat) work.operand_dims.push_back(second_work.operand_dims[i]);
    }
    std::vector<BufferId> product = std::exchange(fused.outputs, second.outputs);
    std::vector<Dims> product_dims = std::exchange(work.result_dims, second_work.result_dims);
    if (keeps_product) {
      fused.outputs.push_back(product.front());
      if (!is_flat) work.result_dims.push_back(product_dims.front());
    }
    return fused;
  }

  /// The position of the fused instruction. The producer's is possible if the consumer's other operands are ready
  /// there. The consumer's is possible if no instruction reads the product before and the producer's operands are
  /// unchanged. If both are possible, the pattern chooses. A product of a gathered operand takes the producer's,
  /// because chunked overlap multiplies the gathered parts as they arrive.
  [[nodiscard]] std::optional<std::size_t> place_of(std::size_t producer, std::size_t consumer,
                                                    const FusionPattern& pattern, bool keeps_product) const {
    const std::vector<BufferId>& first = instructions_[producer].inputs;
    const std::vector<BufferId>& second = instructions_[consumer].inputs;
    bool early = true;
    for (std::size_t i = 0; i < second.size(); ++i) {
      early = early && (static_cast<int>(i) == pattern.operand || !uses_.is_written_after(second[i], producer));
    }
    for (const BufferId output : instructions_[consumer].outputs) early = early && uses_.writers(output).size() == 1;
    const bool late = !keeps_product && std::ranges::none_of(first, [&](BufferId input) {
      return uses_.is_written_after(input, producer);
    });
    const bool wants_early =
        pattern.place == FusionPattern::Place::producer || (!first.empty() && is_gathered(first.front()));
    if (early && (wants_early || !late)) return producer;
    return late ? std::optional(consumer) : std::nullopt;
  }

  /// True if an all_gather of this task writes `buffer`, or a buffer that is unpacked into it.
  [[nodiscard]] bool is_gathered(BufferId buffer) const {
    const std::vector<std::size_t>& writers = uses_.writers(buffer);
    if (writers.empty()) return false;
    const Instruction& writer = instructions_[writers.back()];
    if (writer.is<Copy>()) return is_gathered(writer.inputs[0]);
    const auto* collective = writer.as<Collective>();
    return collective != nullptr && collective->kind == CollectiveKind::all_gather;
  }

  void replace(std::size_t producer, std::size_t consumer, std::size_t place, Instruction fused) {
    const std::size_t gone = place == producer ? consumer : producer;
    instructions_[place] = std::move(fused);
    removed_[gone] = true;
    uses_.move(instructions_[gone].inputs, gone, place);
    for (const BufferId output : instructions_[place].outputs) uses_.set_writer(output, place);
  }

  // --- sums

  /// a, b, … -> sum(a, b, …)   becomes   a, then b added to a, …
  void fuse_sum(std::size_t at) {
    const Instruction sum = instructions_[at];
    // The first term becomes the sum. So only this task may read the sum, and no other instruction may write it. A
    // gradient to which several instructions add is excluded.
    const Buffer& result = program_.buffer(sum.outputs[0]);
    if (compute(at).accumulate || result.base >= 0 || is_persistent(result.id)) return;
    if (uses_.writers(result.id).size() != 1) return;
    const auto base = first_term(sum, at);
    if (!base) return;
    std::vector<std::pair<std::size_t, Instruction>> changed;
    for (const BufferId term : sum.inputs) {
      if (term == *base) continue;
      const auto writer = sole_writer(term);
      if (!writer || instructions_[*writer].when != sum.when || !uses_.is_read_only_at(term, at) ||
          *writer <= uses_.last_use_before(*base, at))
        return;
      Instruction adding = instructions_[*writer];
      adding.outputs = {*base};
      adding.as<Compute>()->accumulate = true;
      if (!is_supported(adding)) return;
      changed.emplace_back(*writer, std::move(adding));
    }
    for (auto& [writer, instruction] : changed) {
      instructions_[writer] = std::move(instruction);
      uses_.add_writer(*base, writer);
    }
    rename(sum.outputs[0], *base);
    removed_[at] = true;
  }

  /// The term that is complete first. Empty if an instruction reads it after the sum, or if a term is sent.
  [[nodiscard]] std::optional<BufferId> first_term(const Instruction& sum, std::size_t at) const {
    std::optional<BufferId> first;
    for (const BufferId term : sum.inputs) {
      if (std::ranges::count(sum.inputs, term) != 1) return std::nullopt;
      if (program_.buffer(term).base >= 0 || is_persistent(term)) return std::nullopt;
      // A sum in memory that is being sent would wait until another rank has received it.
      if (uses_.is_sent(term)) return std::nullopt;
      if (uses_.writers(term).empty()) return std::nullopt;
      if (!first || uses_.writers(term).back() < uses_.writers(*first).back()) first = term;
    }
    return uses_.is_read_after(*first, at) ? std::nullopt : first;
  }

  void rename(BufferId from, BufferId to) {
    for (const TaskUses::Place& place : uses_.rename(from, to)) {
      std::vector<BufferId>& inputs = program_.tasks[place.task].instructions[place.at].inputs;
      std::ranges::replace(inputs, from, to);
    }
    for (auto& [name, buffer] : program_.reports) {
      if (buffer == from) buffer = to;
    }
  }

  Program& program_;
  const OpRegistry& registry_;
  const Fusions& fusions_;
  const Device& device_;
  std::vector<Instruction>& instructions_;
  std::vector<bool> removed_;
  TaskUses uses_;
};

}  // namespace

void fuse_instructions(Program& program, const OpRegistry& registry, const Device& device) {
  const Fusions fusions = all_fusions(registry);
  for (Task& task : program.tasks) TaskFuser(program, registry, fusions, device, task).run();
}

}  // namespace strata::host
