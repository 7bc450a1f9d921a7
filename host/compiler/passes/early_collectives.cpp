#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"

namespace strata::host {
namespace {

/// FLOPs of a current GPU in the time in which its link inside of a node carries a byte. An H100 reaches 700 TFLOP/s in
/// large products, and 360 GB/s over NVLink.
constexpr double kFlopsPerByte = 2000;

/// Moves the collectives of one task.
class EarlyCollectives {
 public:
  EarlyCollectives(const Program& program, const OpRegistry& registry, Task& task)
      : program_(program), registry_(registry), instructions_(task.instructions) {}

  void run() {
    for (std::size_t at = 0; at < instructions_.size(); ++at) {
      if (may_move(instructions_[at])) move(at);
    }
  }

 private:
  /// Gradients and parameters have rules of their own for when they travel.
  [[nodiscard]] static bool may_move(const Instruction& instruction) {
    const auto* collective = instruction.as<Collective>();
    return collective != nullptr && collective->content == BufferKind::activation &&
           instruction.occurrence == Occurrence::always && instruction.when.is_always() && instruction.waits.empty() &&
           instruction.earlier_waits.empty();
  }

  /// Walks from the collective towards the start of the task. The instructions on which the collective depends move
  /// with it. It passes all others, up to the last product that it needs to hide it.
  void move(std::size_t collective) {
    const double wanted = kFlopsPerByte * bytes(instructions_[collective]);
    std::vector<std::size_t> along{collective};  // positions, descending
    std::vector<std::size_t> behind;
    double hidden_by = 0;
    std::size_t target = collective;
    std::size_t along_from_target = 1;
    std::size_t behind_target = 0;
    for (std::size_t at = collective; at-- > 0 && hidden_by < wanted;) {
      const Instruction& each = instructions_[at];
      if (is_barrier(each, instructions_[collective])) break;
      const double flops = product_flops(each);
      if (depends(along, at)) {
        if (flops > 0) break;
        along.push_back(at);
        continue;
      }
      behind.push_back(at);
      if (flops == 0) continue;
      hidden_by += flops;
      target = at;
      along_from_target = along.size();
      behind_target = behind.size();
    }
    along.resize(along_from_target);
    behind.resize(behind_target);
    if (target < collective) reorder(target, along, behind);
  }

  /// Messages and transfers keep their place among the work, and a collective stays in its block.
  [[nodiscard]] static bool is_barrier(const Instruction& each, const Instruction& collective) {
    return (is_asynchronous(each) && !each.is<Collective>()) || (each.block >= 0 && each.block != collective.block);
  }

  /// True if an instruction of `along` must stay after the one at `at`.
  [[nodiscard]] bool depends(const std::vector<std::size_t>& along, std::size_t at) const {
    const Instruction& earlier = instructions_[at];
    return std::ranges::any_of(along, [&](std::size_t each) {
      const Instruction& later = instructions_[each];
      return share_memory(earlier.outputs, later.inputs) || share_memory(earlier.outputs, later.outputs) ||
             share_memory(earlier.inputs, later.outputs);
    });
  }

  [[nodiscard]] bool share_memory(const std::vector<BufferId>& some, const std::vector<BufferId>& others) const {
    return std::ranges::any_of(some, [&](BufferId one) {
      return std::ranges::any_of(others, [&](BufferId other) { return program_.root(one) == program_.root(other); });
    });
  }

  /// 0 for other work than products. A product multiplies once for each point of its iteration.
  [[nodiscard]] double product_flops(const Instruction& instruction) const {
    const auto* compute = instruction.as<Compute>();
    if (compute == nullptr || !registry_.has(compute->op) || !registry_.get(compute->op).is_product()) return 0;
    double flops = 2;
    for (const ShardedDim& each : compute->iteration) {
      flops *= static_cast<double>(each.global_size);
      for (const AxisShard& shard : each.axes) flops /= program_.mesh.size(shard.axis);
    }
    return flops;
  }

  [[nodiscard]] double bytes(const Instruction& collective) const {
    return static_cast<double>(std::max(program_.buffer(collective.inputs.front()).bytes(),
                                        program_.buffer(collective.outputs.front()).bytes()));
  }

  void reorder(std::size_t target, const std::vector<std::size_t>& along, const std::vector<std::size_t>& behind) {
    std::vector<Instruction> ordered;
    for (const auto* positions : {&along, &behind}) {
      for (auto at = positions->rbegin(); at != positions->rend(); ++at) {
        ordered.push_back(std::move(instructions_[*at]));
      }
    }
    std::move(ordered.begin(), ordered.end(), instructions_.begin() + static_cast<std::ptrdiff_t>(target));
  }

  const Program& program_;
  const OpRegistry& registry_;
  std::vector<Instruction>& instructions_;
};

}  // namespace

void start_collectives_early(Program& program, const OpRegistry& registry) {
  for (Task& task : program.tasks) {
    if (task.kind == Task::Kind::prologue || task.kind == Task::Kind::epilogue) continue;
    EarlyCollectives(program, registry, task).run();
  }
}

}  // namespace strata::host
