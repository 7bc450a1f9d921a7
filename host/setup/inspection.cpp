#include "setup/inspection.hpp"

#include "checkpoint/checkpoint_plan.hpp"
#include "checkpoint/rank_pieces.hpp"
#include "runtime/rank_threads.hpp"
#include "setup/initial_values.hpp"
#include "setup/ranks_per_process.hpp"
#include "setup/remarks.hpp"

namespace strata::host {

Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry) {
  Inspection inspection;
  inspection.setup = prepare(configuration, registry);
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
    world = setup.make_world(ranks_per_process(setup.configuration, setup.stack.mesh.rank_count()));
  } catch (const Error&) {
    // For example, a launcher has started several processes.
    return;
  }
  run_rank_threads(
      *world, [&](int rank) { return setup.make_device(rank, *world); }, [](Device&, Communicator&) {});
}

}  // namespace strata::host
