#include "simulate/instruction_times.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/communication_trace.hpp"
#include "simulate/kernel_cost.hpp"
#include "simulate/network_cost.hpp"

namespace strata::host {
namespace {

/// The ranks of one class, with what they have in common.
class ClassTimes {
 public:
  ClassTimes(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster, const NetworkCost& network,
             int number)
      : compiled_(compiled),
        registry_(registry),
        network_(network),
        program_(compiled.programs[static_cast<std::size_t>(number)]) {
    for (int rank = 0; rank < static_cast<int>(compiled.class_of_rank.size()); ++rank) {
      if (compiled.class_of_rank[static_cast<std::size_t>(rank)] != number) continue;
      ranks_.push_back(rank);
      devices_.insert(&cluster.group_of(rank));
    }
  }

  /// `like`: the times of a class whose kernels are the same; null: there is none.
  [[nodiscard]] TimedProgram timed(const TimedProgram* like) {
    TimedProgram timed{.program = &program_};
    for (const NodeGroup* group : devices_) {
      timed.launch = std::max(timed.launch, group->device.launch);
      timed.collective_slowdown = std::max(timed.collective_slowdown, group->device.collective_slowdown);
    }
    for (const Task& task : program_.tasks) {
      std::vector<InstructionTime>& times = timed.tasks.emplace_back();
      for (const Instruction& instruction : task.instructions) {
        const bool is_known = like != nullptr && !is_communication(instruction);
        times.push_back(is_known ? like->tasks[timed.tasks.size() - 1][times.size()] : time(instruction));
      }
    }
    return timed;
  }

  [[nodiscard]] bool has_devices_of(const ClassTimes& other) const { return devices_ == other.devices_; }

 private:
  InstructionTime time(const Instruction& instruction) {
    if (const auto* collective = instruction.as<Collective>()) return {collective_seconds(instruction, *collective)};
    if (is_communication(instruction)) return {message_seconds(instruction)};
    if (instruction.is<Transfer>() || instruction.is<LoadInput>()) return {transfer_seconds(instruction)};
    const KernelWork work = kernel_work(registry_, program_, instruction);
    InstructionTime time;
    if (work.product || work.attention) {
      time.flops = work.flops;
      time.kind = work.product ? WorkKind::product : WorkKind::attention;
    }
    for (const NodeGroup* group : devices_) {
      const DeviceDescription& device = group->device;
      // More ranks than cores take turns, which the simulation knows.
      const int ranks = group->sharing_ranks(compiled_.mesh.rank_count());
      const int sharing = group->cores > 0 ? std::min(ranks, group->cores) : ranks;
      time.seconds = std::max(time.seconds, kernel_seconds(device, work, sharing) + device.kernel_gap);
    }
    return time;
  }

  /// Bytes of the input or the output of a communication or a transfer, whichever is larger.
  [[nodiscard]] double largest_buffer(const Instruction& instruction) const {
    std::int64_t bytes = 0;
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      if (!buffers->empty()) bytes = std::max(bytes, program_.buffer(buffers->front()).bytes());
    }
    return static_cast<double>(bytes);
  }

  double transfer_seconds(const Instruction& instruction) const {
    double seconds = 0;
    for (const NodeGroup* group : devices_) {
      const DeviceDescription& device = group->device;
      // Without a link to it, the device shares the host's memory: a copy reads and writes there.
      const bool has_link = device.host_bandwidth > 0;
      const double rate = has_link ? device.host_bandwidth : device.memory_bandwidth * device.memory_share / 2;
      seconds = std::max(seconds, largest_buffer(instruction) / rate);
    }
    return seconds;
  }

  double collective_seconds(const Instruction& instruction, const Collective& collective) {
    double seconds = 0;
    const DType dtype = program_.buffer(instruction.inputs.front()).dtype;
    for (const GroupPlacement& group : placements(counterparts_of(program_, instruction))) {
      seconds =
          std::max(seconds, network_.collective_seconds(collective.kind, dtype, largest_buffer(instruction), group));
    }
    return seconds;
  }

  /// The different placements of the groups of all ranks.
  const std::set<GroupPlacement>& placements(const Counterparts& with) {
    const auto [found, added] = placements_.try_emplace(with);
    if (!added) return found->second;
    std::vector<bool> seen(compiled_.class_of_rank.size());
    for (const int rank : ranks_) {
      if (seen[static_cast<std::size_t>(rank)]) continue;
      const std::vector<int> group = ranks_of(with, program_.mesh, rank);
      for (const int member : group) seen[static_cast<std::size_t>(member)] = true;
      found->second.insert(network_.placement(group));
    }
    return found->second;
  }

  double message_seconds(const Instruction& instruction) {
    double seconds = 0;
    for (const Hop& hop : hops(counterparts_of(program_, instruction))) {
      seconds = std::max(seconds, network_.message_seconds(largest_buffer(instruction), hop.from, hop.to, hop.senders));
    }
    return seconds;
  }

  /// A message over one level of the network, beside those of the other ranks below it.
  struct Hop {
    int from = 0;
    int to = 0;
    int senders = 1;
  };

  /// One hop for each level that some rank's message crosses, where most of the class's ranks share the link.
  const std::vector<Hop>& hops(const Counterparts& with) {
    const auto [found, added] = hops_.try_emplace(with);
    if (!added) return found->second;
    std::map<std::pair<std::size_t, int>, Hop> shared;  // by level and the instance below it
    for (const int rank : ranks_) {
      const int peer = ranks_of(with, program_.mesh, rank).front();
      if (peer == rank) continue;
      const std::size_t level = network_.level_between(rank, peer);
      const auto [hop, is_new] =
          shared.try_emplace({level, rank / network_.sharing_devices(level)}, Hop{rank, peer, 0});
      ++hop->second.senders;
    }
    std::map<std::size_t, Hop> most;  // by level
    for (const auto& [place, hop] : shared) {
      const auto [known, is_new] = most.try_emplace(place.first, hop);
      if (hop.senders > known->second.senders) known->second = hop;
    }
    for (const auto& [level, hop] : most) found->second.push_back(hop);
    return found->second;
  }

  const Compiled& compiled_;
  const OpRegistry& registry_;
  const NetworkCost& network_;
  const Program& program_;
  std::vector<int> ranks_;
  std::set<const NodeGroup*> devices_;
  std::map<Counterparts, std::set<GroupPlacement>> placements_;
  std::map<Counterparts, std::vector<Hop>> hops_;
};

}  // namespace

TimedPrograms time_programs(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster) {
  const NetworkCost network(cluster, compiled.mesh.rank_count());
  TimedPrograms timed;
  const int ranks = compiled.mesh.rank_count();
  timed.pool.cores = cluster.shared_cores(ranks);
  timed.pool.threads = std::max(1.0, std::floor(timed.pool.cores / ranks));
  std::vector<ClassTimes> classes;
  for (std::size_t i = 0; i < compiled.programs.size(); ++i) {
    classes.emplace_back(compiled, registry, cluster, network, static_cast<int>(i));
    const int like = compiled.repeats.empty() ? -1 : compiled.repeats[i];
    const bool is_like = like >= 0 && classes[i].has_devices_of(classes[static_cast<std::size_t>(like)]);
    timed.programs.push_back(classes[i].timed(is_like ? &timed.programs[static_cast<std::size_t>(like)] : nullptr));
  }
  return timed;
}

double product_flops(const TimedProgram& timed, std::uint64_t step) {
  double sum = 0;
  for_each_instruction(*timed.program, step,
                       [&](const TaskInstance& at, std::size_t index, const Instruction& /*instruction*/) {
                         sum += timed.tasks[static_cast<std::size_t>(at.task)][index].flops;
                       });
  return sum;
}

}  // namespace strata::host
