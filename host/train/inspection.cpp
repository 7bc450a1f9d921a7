#include "train/inspection.hpp"

#include <algorithm>

#include "checkpoint/checkpoint_plan.hpp"
#include "huggingface/initial_values.hpp"
#include "runtime/rank_threads.hpp"

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

}  // namespace

Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry) {
  Inspection inspection;
  inspection.setup = prepare_run(configuration, registry);
  const RunSetup& setup = inspection.setup;
  const DimSizes data = setup.open_data().sizes();
  require_initial_values(setup, data);
  const DimSizes sizes = setup.sizes(data);
  inspection.device = setup.make_device(0, setup.stack.mesh.rank_count());
  inspection.device_bytes = setup.memory_bytes(*inspection.device);
  inspection.programs = compile_training(setup, sizes, inspection.device.get());
  inspection.planned_peak_bytes = inspection.programs.planned_peak_bytes();
  inspection.planned_checkpoint_bytes = planned_copy_bytes(
      planned_copies(plan_checkpoint(rank_programs(inspection.programs.training)), setup.stack.mesh.rank_count(),
                     copies_whole(setup.configuration.run.checkpoint_mode, setup.configuration.run.checkpoint_every)));
  inspection.remarks =
      with_places(setup.configuration, [&] { return find_remarks(inspection.programs, *inspection.device); });
  return inspection;
}

std::optional<std::string> find_fault(const Inspection& inspection) {
  const RunSetup& setup = inspection.setup;
  if (auto fault = find_fault(inspection.programs, setup.limits(*setup.make_world()), inspection.device_bytes)) {
    return fault;
  }
  return find_copy_fault(inspection.planned_peak_bytes, inspection.planned_checkpoint_bytes, *inspection.device,
                         inspection.device_bytes);
}

void require_connection(const Inspection& inspection) {
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
