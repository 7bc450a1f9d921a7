#include "train/verify/verification.hpp"

#include <algorithm>
#include <utility>

#include "train/data/joined_sizes.hpp"
#include "train/verify/random_inputs.hpp"

namespace strata::host {
namespace {

/// Number of pipeline stages; 0 if no strategy places blocks.
int stage_count(const RunSetup& setup) {
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  const Stages stages = setup.find_stages(request);
  return stages.scheduler ? stages.count : 0;
}

MakeDevice devices_of(const RunSetup& setup) {
  return
      [&setup](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, setup.stack.mesh.rank_count()); };
}

}  // namespace

RunConfiguration shrink(const RunConfiguration& configuration, PluginRegistry& registry) {
  const RunSetup setup = prepare(configuration, registry);
  RunConfiguration small = setup.configuration;
  const int stages = stage_count(setup);
  small.model.options = setup.shrunk_model({required_multiples(setup.stack), stages > 0}).values();
  const std::int64_t micro_batches = configuration.batch.global / (configuration.batch.micro * setup.stack.replicas);
  // A pipeline must fill and drain, and some schedules need a multiple of the number of stages.
  const std::int64_t most = stages > 0 ? std::int64_t{2} * stages : 3;
  small.batch.micro = std::min<std::int64_t>(configuration.batch.micro, 2);
  small.batch.global = small.batch.micro * setup.stack.replicas * std::min(micro_batches, most);
  return small;
}

StackResult run_setup_stack(const RunSetup& setup, DType float_type, int steps, const MakeDevice& make_device,
                            UpdateBy update, Graph* graph) {
  const DimSizes sizes = setup.sizes_without_data();
  CompileRequest request = setup.request(GraphMode::training, sizes);
  request.float_type = float_type;
  request.optimizer.is_update_outside = update == UpdateBy::definition;
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  request.device = device.get();
  const Compiled compiled = setup.compile(request);
  if (graph != nullptr) *graph = compiled.graph;
  RandomInputs inputs(setup.seed(), setup.inputs, sizes);
  const std::unique_ptr<World> world = setup.make_world();
  return run_stack(compiled, *world, make_device,
                   {setup.seed(), setup.configuration.optimizer.lr, steps,
                    update == UpdateBy::definition ? &setup.optimizer : nullptr},
                   inputs);
}

Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                          const VerificationOptions& options) {
  RunConfiguration wanted = configuration;
  const std::string reference = "reference";
  wanted.device = {configuration.device.path, options.device.empty() ? reference : options.device, {}};
  wanted.communicator = {configuration.communicator.path, "local", {}};
  if (!options.full) wanted = shrink(wanted, registry);
  const RunSetup stack = prepare(wanted, registry);
  RunConfiguration alone = wanted;
  alone.strategies.clear();
  alone.device = {configuration.device.path, reference, {}};
  const RunSetup single = prepare(alone, registry);

  Verification verification;
  verification.configuration = stack.configuration;
  verification.mesh = stack.stack.mesh;
  Graph graph;
  verification.single =
      run_setup_stack(single, DType::f64, options.steps, devices_of(single), UpdateBy::definition, &graph);
  verification.stack = run_setup_stack(stack, DType::f64, options.steps, devices_of(stack));
  verification.difference = compare(verification.stack, verification.single, graph);
  return verification;
}

}  // namespace strata::host
