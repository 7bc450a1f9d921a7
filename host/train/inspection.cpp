#include "train/inspection.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_plan.hpp"
#include "huggingface/initial_values.hpp"
#include "runtime/rank_threads.hpp"
#include "setup/tuning.hpp"
#include "simulate/described_device.hpp"
#include "simulate/measured.hpp"

namespace strata::host {
namespace {

/// True if `strata check` accepts the run.
bool passes_check(const RunConfiguration& configuration, PluginRegistry& registry) {
  try {
    return !find_fault(inspect(configuration, registry));
  } catch (const Error&) {
    return false;
  }
}

/// True if the plugins accept the configuration, and its batch divides.
bool can_be_prepared(const RunConfiguration& configuration, PluginRegistry& registry) {
  try {
    static_cast<void>(prepare_run(configuration, registry));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The plugin's name in a remark, if it cannot be loaded on this machine.
template <class Factory>
std::string missing_plugin(const PluginSection& section, PluginRegistry& registry) {
  try {
    static_cast<void>(registry.load<Factory>(section.plugin));
    return "";
  } catch (const Error&) {
    return std::string(to_string(kKindOf<Factory>)) + " '" + section.plugin + "'";
  }
}

/// Leaves out device and communicator if this machine lacks one of them. \return a remark about it.
std::optional<std::string> drop_missing_plugins(RunConfiguration& configuration, PluginRegistry& registry) {
  std::string missing = missing_plugin<DeviceFactory>(configuration.device, registry);
  if (missing.empty()) missing = missing_plugin<CommunicatorFactory>(configuration.communicator, registry);
  if (missing.empty()) return std::nullopt;
  configuration.device.plugin.clear();
  configuration.communicator.plugin.clear();
  return missing + " cannot be loaded here, so the options of device and communicator are not checked";
}

/// Takes the device from the cluster, or makes that of this machine.
void find_device(Inspection& inspection) {
  const RunSetup& setup = inspection.setup;
  const int ranks = setup.stack.mesh.rank_count();
  if (inspection.cluster) {
    inspection.device_bytes = inspection.cluster->least_memory_bytes(ranks);
    inspection.device = described_device(inspection.device_text(), inspection.device_bytes, *setup.ops,
                                         measured_ops(*inspection.cluster));
    inspection.remarks.emplace_back(
        "the workspaces of kernels are not counted, because the cluster's devices are not asked for them");
  } else {
    inspection.device = setup.make_device(0, ranks);
    inspection.device_bytes = setup.memory_bytes(*inspection.device);
  }
}

std::string memory_fault(int rank, const std::string& needed, std::int64_t bytes, const std::string& owner) {
  return "rank " + std::to_string(rank) + " needs " + needed + ", " + owner + " has " + std::to_string(bytes) +
         "; a smaller batch.micro, a smaller model or more ranks need less";
}

/// Which rank needs more memory than its device in the cluster has, or than its share of the node's host memory.
std::optional<std::string> find_memory_fault(const Inspection& inspection, const Cluster& cluster) {
  const auto& planned = inspection.planned_peak_bytes;
  const auto& copies = inspection.planned_checkpoint_bytes;
  const std::vector<OffloadBytes> offloaded = inspection.programs.planned_offload();
  const int ranks = static_cast<int>(planned.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const std::int64_t bytes = cluster.memory_bytes(rank, ranks);
    const std::string device = "its " + cluster.group_of(rank).device.name;
    if (planned[at] > bytes) return memory_fault(rank, std::to_string(planned[at]) + " bytes", bytes, device);
    const std::optional<std::int64_t> host = cluster.host_memory_bytes(rank, ranks, planned[at]);
    if (!host) continue;
    const std::string share = "its share of host memory";
    const std::int64_t left = *host - offloaded[at].host;
    if (left < 0) {
      return memory_fault(rank, std::to_string(offloaded[at].host) + " bytes for what it offloads", *host, share);
    }
    if (copies[at] <= left) continue;
    return memory_fault(rank, std::to_string(copies[at]) + " bytes for the copy of a checkpoint", left, share) +
           "; run.checkpoint_mode = \"foreground\" needs no copy";
  }
  return std::nullopt;
}

}  // namespace

std::string Inspection::device_text() const {
  if (!cluster) return device->description();
  std::string text;
  for (const NodeGroup& group : cluster->groups) {
    text += (text.empty() ? "" : " and ") + std::to_string(group.nodes * group.devices) + " " + group.device.name;
  }
  return cluster->name + ", " + text;
}

Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry, const InspectionTarget& target,
                   PhaseTimes* times) {
  Inspection inspection;
  inspection.cluster = target.cluster;
  RunConfiguration wanted = configuration;
  if (target.cluster) {
    if (auto remark = drop_missing_plugins(wanted, registry)) inspection.remarks.push_back(std::move(*remark));
  }
  enter(times, "plugins");
  inspection.setup = prepare_run(std::move(wanted), registry);
  inspection.setup.times = times;
  if (target.cluster) static_cast<void>(target.cluster->group_of(inspection.setup.stack.mesh.rank_count() - 1));
  enter(times, "data");
  const DimSizes data = inspection.setup.data_sizes(target.vocab);
  enter(times, "choice of open options");
  tune(inspection.setup, registry, target.cluster, data);
  const RunSetup& setup = inspection.setup;
  inspection.remarks.insert(inspection.remarks.end(), setup.decisions.begin(), setup.decisions.end());
  require_initial_values(setup, data);
  const DimSizes sizes = setup.sizes(data);
  find_device(inspection);
  inspection.programs = compile_training(setup, sizes, inspection.device.get());
  enter(times, "plan of checkpoints");
  inspection.planned_peak_bytes = inspection.programs.planned_peak_bytes();
  plan_copies(inspection, setup.configuration.run.checkpoint_mode);
  enter(times, "remarks");
  const std::vector<std::string> remarks =
      with_places(setup.configuration, [&] { return find_remarks(inspection.programs, *inspection.device); });
  inspection.remarks.insert(inspection.remarks.end(), remarks.begin(), remarks.end());
  return inspection;
}

void plan_copies(Inspection& inspection, CheckpointMode mode) {
  RunSection& run = inspection.setup.configuration.run;
  run.checkpoint_mode = mode;
  inspection.planned_checkpoint_bytes = planned_copy_bytes(planned_copies(
      CheckpointPlan(rank_programs(inspection.programs.training)), copies_whole(mode, run.checkpoint_every)));
}

std::optional<std::string> find_fault(const Inspection& inspection) {
  if (inspection.cluster) {
    constexpr std::int64_t kChecked = std::numeric_limits<std::int64_t>::max();
    if (auto fault = find_fault(inspection.programs, CommunicatorLimits{}, kChecked)) return fault;
    return find_memory_fault(inspection, *inspection.cluster);
  }
  const RunSetup& setup = inspection.setup;
  enter(setup.times, "check of communication");
  if (auto fault = find_fault(inspection.programs, setup.limits(*setup.make_world()), inspection.device_bytes)) {
    return fault;
  }
  return find_copy_fault(inspection.planned_peak_bytes, inspection.planned_checkpoint_bytes, *inspection.device,
                         inspection.device_bytes);
}

void require_connection(const Inspection& inspection) {
  if (inspection.cluster) return;
  const RunSetup& setup = inspection.setup;
  std::unique_ptr<World> world;
  try {
    world = setup.make_world(ranks_per_process(setup));
  } catch (const Error&) {
    // For example, a launcher has started several processes.
    return;
  }
  run_rank_threads(
      *world, [&](int rank) { return setup.make_device(rank, *world); }, [](Device&, Communicator&) {});
}

std::optional<ShrunkAxis> find_shrunk_axis(const RunSetup& setup, int slots, PluginRegistry& registry) {
  const ShrinkSection& shrink = setup.configuration.run.shrink;
  if (shrink.axis.empty()) return std::nullopt;
  const ShrinkingOption option = find_shrinking_option(setup);
  const int whole = setup.stack.mesh.size(shrink.axis);
  const int ranks_of_one = setup.stack.mesh.rank_count() / whole;
  const int per_process = ranks_per_process(setup);
  // A launcher's machine may lack the run's device. Then the ranks make the check that needs one.
  const bool checks_all = passes_check(setup.configuration, registry);
  const std::int64_t most = std::min<std::int64_t>(slots / ranks_of_one, whole);
  for (std::int64_t size = most; size >= shrink.min; --size) {
    RunConfiguration configuration = setup.configuration;
    configuration.strategies[option.table].options[option.name] = size;
    if (size * ranks_of_one % per_process != 0 || !can_be_prepared(configuration, registry)) continue;
    if (checks_all && !passes_check(configuration, registry)) continue;
    return ShrunkAxis{size, static_cast<int>(size) * ranks_of_one,
                      "strategy." + std::to_string(option.table) + "." + option.name + "=" + std::to_string(size)};
  }
  return std::nullopt;
}

}  // namespace strata::host
