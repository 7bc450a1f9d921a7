#include "verify/verification.hpp"

#include <algorithm>
#include <utility>

#include "compiler/program/step_variants.hpp"
#include "data/joined_sizes.hpp"
#include "huggingface/initial_values.hpp"
#include "loading/model_strategies.hpp"
#include "train/training_programs.hpp"
#include "verify/defined_run.hpp"
#include "verify/evaluation_alone.hpp"
#include "verify/random_inputs.hpp"

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
  const RunSetup setup = prepare_run(configuration, registry);
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

namespace {

/// The training step of `setup` and an evaluation pass beside it, with random inputs.
class PreparedRun {
 public:
  PreparedRun(const RunSetup& setup, DType float_type, bool is_update_outside)
      : setup_(setup), inputs_(setup.seed(), setup.inputs, setup.sizes_without_data()) {
    CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
    request.float_type = float_type;
    request.optimizer.is_update_outside = is_update_outside;
    const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
    request.device = device.get();
    compiled_ = setup.compile(request);
    evaluation_ = compile_evaluation(setup, request, compiled_);
    evaluation_alone_ = compile_evaluation_alone(setup, request);
  }

  [[nodiscard]] const Compiled& compiled() const { return compiled_; }
  [[nodiscard]] StackSettings settings(int steps) const {
    return {.seed = setup_.seed(),
            .learning_rate = setup_.configuration.optimizer.lr,
            .steps = steps,
            .joins_processes = true,
            .evaluation = &evaluation_,
            .evaluation_alone = &evaluation_alone_,
            .evaluates_average = setup_.configuration.optimizer.average.is_evaluated()};
  }

  [[nodiscard]] StackResult run(int steps, const MakeDevice& make_device) {
    const std::unique_ptr<World> world = setup_.make_world();
    return run_stack(compiled_, *world, make_device, settings(steps), inputs_);
  }
  [[nodiscard]] StackResult run_definition(int steps, const SimulatedReplicas& replicas) {
    const std::unique_ptr<World> world = setup_.make_world();
    return host::run_definition(compiled_, *world, devices_of(setup_), settings(steps), setup_.optimizer, replicas,
                                inputs_);
  }

 private:
  const RunSetup& setup_;
  RandomInputs inputs_;
  Compiled compiled_;
  Compiled evaluation_;
  Compiled evaluation_alone_;
};

}  // namespace

StackResult run_setup_stack(const RunSetup& setup, DType float_type, int steps, const MakeDevice& make_device) {
  return PreparedRun(setup, float_type, false).run(steps, make_device);
}

Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                          const VerificationOptions& options) {
  RunConfiguration wanted = configuration;
  const std::string reference = "reference";
  wanted.device = {configuration.device.path, options.device.empty() ? reference : options.device, {}};
  const PluginSection local{configuration.communicator.path, "local", {}};
  wanted.communicator = local;
  if (!options.communicator.empty() && options.communicator != configuration.communicator.plugin) {
    wanted.communicator.plugin = options.communicator;
  } else if (!options.communicator.empty()) {
    wanted.communicator = configuration.communicator;
  }
  if (!options.full) wanted = shrink(wanted, registry);
  const RunSetup stack = prepare_run(wanted, registry);
  RunConfiguration alone = wanted;
  keep_model_strategies(alone, registry);
  alone.communicator = local;
  alone.device = {configuration.device.path, reference, {}};
  RunSetup single = prepare_run(alone, registry);

  Verification verification;
  verification.configuration = stack.configuration;
  verification.mesh = stack.stack.mesh;
  PreparedRun of_stack(stack, DType::f64, false);
  PreparedRun of_single(single, DType::f64, true);
  const StepVariants variants = step_variants(of_stack.compiled());
  const std::uint64_t enough = variants.steps_to_execute_all() + (variants.variants.size() > 1 ? 1 : 0);
  const int steps = std::max(options.steps, static_cast<int>(std::min<std::uint64_t>(enough, kMostVerifiedSteps)));
  for (const StepVariant& each : variants.variants) {
    if (each.step >= static_cast<std::uint64_t>(steps)) verification.missed.push_back(variants.describe(each));
  }
  verification.single = of_single.run_definition(steps, find_replicas(stack.stack, of_stack.compiled(), stack.inputs));
  verification.stack = of_stack.run(steps, devices_of(stack));
  verification.difference = compare(verification.stack, verification.single, of_single.compiled().graph);
  single.float_type = DType::f64;
  verification.generation = verify_generation(single);
  return verification;
}

}  // namespace strata::host
