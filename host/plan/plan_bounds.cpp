#include "plan/plan_bounds.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "simulate/instruction_times.hpp"

namespace strata::host {
namespace {

/// Sums in another order than the simulator's differ by less.
constexpr double kRounding = 1 - 1e-9;

void add(BusyStream& stream, const Task& task, const Instruction& instruction, double seconds) {
  const bool is_repeated = task.kind != Task::Kind::prologue && task.kind != Task::Kind::epilogue &&
                           instruction.occurrence == Occurrence::always;
  (is_repeated ? stream.per_micro_batch : stream.per_step) += seconds;
}

/// `share`: of the steps that are of this variant.
void add_variant(RankWork& work, const TimedProgram& timed, std::uint64_t step, double share) {
  const Program& program = *timed.program;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    for (std::size_t k = 0; k < task.instructions.size(); ++k) {
      const Instruction& instruction = task.instructions[k];
      if (!instruction.when.holds(step) || instruction.is<Transfer>()) continue;
      const double seconds = share * timed.tasks[i][k].seconds;
      if (instruction.is<Collective>()) {
        add(work.collectives[counterparts_of(program, instruction)], task, instruction, seconds);
      } else if (!is_communication(instruction)) {
        add(work.kernels, task, instruction, seconds);
        if (task.kind == Task::Kind::forward && instruction.occurrence == Occurrence::always) work.forward += seconds;
      }
    }
  }
}

/// Elements of the parameter on one rank, before the axes of a flat bucket divide them.
double local_elements(const Program& program, const StoredParameter& parameter) {
  double elements = 1;
  for (const ShardedDim& dim : parameter.dims) {
    double size = static_cast<double>(dim.global_size);
    for (const AxisShard& shard : dim.axes) size /= program.mesh.size(shard.axis);
    elements *= size;
  }
  return elements;
}

double stored_bytes(const Program& program) {
  double bytes = 0;
  std::set<BufferId> stored;
  for (const StoredParameter& parameter : program.parameters) {
    if (parameter.value >= 0) stored.insert(program.root(parameter.value));
    const double elements = local_elements(program, parameter);
    const double pieces = parameter.sharding ? program.mesh.size(parameter.sharding->axes) : 1;
    const auto add = [&](BufferId id, double count) {
      const Buffer& root = program.buffer(program.root(id));
      if (root.place != MemoryPlace::device) return;
      bytes += count * static_cast<double>(size_of(program.buffer(id).dtype));
    };
    if (parameter.value >= 0) {
      add(parameter.value, parameter.sharding && parameter.sharding->values ? elements / pieces : elements);
    }
    for (const auto& [name, id] : parameter.states) {
      if (!parameter.state_dims.contains(name)) add(id, elements / pieces);
    }
  }
  // Values that are gathered for a step.
  for (const Buffer& each : program.buffers) {
    const bool is_gathered = each.kind == BufferKind::parameter && each.persistent && each.base >= 0 &&
                             !stored.contains(program.root(each.id));
    if (is_gathered) bytes += static_cast<double>(each.bytes());
  }
  return bytes;
}

/// A quantity of the whole model and of one alike block more.
struct Growth {
  double whole = 0;
  double block = 0;
};

/// The largest of the stages' shares: at least the average, and what the stage's own alike blocks need. `waits`: what
/// each alike block before a stage makes it wait.
double largest_share(const Growth& growth, const DealtBlocks& blocks, double waits = 0) {
  const auto stages = static_cast<double>(blocks.own.size());
  const double waited = waits * std::accumulate(blocks.before.begin(), blocks.before.end(), 0);
  double largest = (growth.whole + waited) / stages;
  for (std::size_t i = 0; i < blocks.own.size(); ++i) {
    largest = std::max(largest, growth.block * blocks.own[i] + waits * blocks.before[i]);
  }
  return largest;
}

}  // namespace

RankWork rank_work(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster) {
  RankWork work;
  const TimedPrograms timed = time_programs(compiled, registry, cluster);
  const StepVariants variants = step_variants(compiled);
  for (const StepVariant& variant : variants.variants) {
    const double share = static_cast<double>(variant.count) / static_cast<double>(variants.period);
    add_variant(work, timed.programs.front(), variant.step, share);
  }
  work.bytes = stored_bytes(compiled.programs.front());
  return work;
}

DealtBlocks::DealtBlocks(const Stages& stages, const AlikeBlocks& alike)
    : own(static_cast<std::size_t>(stages.count)), before(own.size()), count(alike.count) {
  const int chunks = static_cast<int>(stages.stage_of_chunk.size());
  std::vector<int> of_chunk(static_cast<std::size_t>(chunks));
  for (int block = alike.first; block < alike.first + alike.count; ++block) {
    ++of_chunk.at(static_cast<std::size_t>(stages.chunk(block)));
  }
  std::vector<bool> is_seen(own.size());
  int passed = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const auto stage = static_cast<std::size_t>(stages.stage(chunk));
    if (!is_seen[stage]) before[stage] = passed;
    is_seen[stage] = true;
    own[stage] += of_chunk[static_cast<std::size_t>(chunk)];
    passed += of_chunk[static_cast<std::size_t>(chunk)];
  }
}

PlanBounds plan_bounds(const RankWork& one, const RankWork& two, const DealtBlocks& blocks, int micro_batches) {
  const auto grow = [&](double at_one, double at_two) {
    const double block = std::max(0.0, at_two - at_one);
    return Growth{at_one + (blocks.count - 1) * block, block};
  };
  const auto in_step = [&](const BusyStream& at_one, const BusyStream& at_two) {
    return grow(micro_batches * at_one.per_micro_batch + at_one.per_step,
                micro_batches * at_two.per_micro_batch + at_two.per_step);
  };
  const double forward = grow(one.forward, two.forward).block;
  double seconds = largest_share(in_step(one.kernels, two.kernels), blocks, forward);
  for (const auto& [group, busy] : two.collectives) {
    const auto found = one.collectives.find(group);
    if (found == one.collectives.end()) continue;
    seconds = std::max(seconds, largest_share(in_step(found->second, busy), blocks));
  }
  const double bytes = largest_share(grow(one.bytes, two.bytes), blocks);
  return {seconds * kRounding, static_cast<std::int64_t>(bytes * kRounding)};
}

}  // namespace strata::host
