#include "train/verify/verification.hpp"

#include <algorithm>
#include <utility>

#include "train/verify/random_inputs.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kDefaultVocab = 256;

/// By how much each dimension must be divisible for the stack's rules to apply as they do in the full size.
std::map<Dim, std::int64_t> required_multiples(const RunSetup& setup) {
  std::map<Dim, std::int64_t> multiples;
  for (const NamedStrategy& each : setup.strategies) {
    for (const Rule& rule : each.strategy->rules()) {
      std::int64_t& multiple = multiples.try_emplace(rule.dim, 1).first->second;
      multiple *= setup.mesh.size(rule.axis);
      if (rule.distribution == Distribution::zigzag) multiple *= 2;
    }
  }
  return multiples;
}

/// Ranks along the axis on which the stack places blocks; 0 where it places none.
int stage_count(const RunSetup& setup) {
  CompileRequest request = setup.request(GraphMode::training, setup.model->vocab().value_or(kDefaultVocab));
  const Stages stages = setup.find_stages(request);
  return stages.scheduler ? stages.count : 0;
}

RunConfiguration shrink(const RunConfiguration& configuration, PluginRegistry& registry) {
  const RunSetup setup = prepare(configuration, registry);
  RunConfiguration small = setup.configuration;
  const int stages = stage_count(setup);
  small.model.options =
      setup.plugins.model.factory->shrink(setup.plugins.model.options, {required_multiples(setup), stages > 0})
          .values();
  const std::int64_t micro_batches = configuration.batch.global / (configuration.batch.micro * setup.replicas);
  // A pipeline must fill and drain; and some schedules want a multiple of the stages.
  const std::int64_t most = stages > 0 ? std::int64_t{2} * stages : 3;
  small.batch.micro = std::min<std::int64_t>(configuration.batch.micro, 2);
  small.batch.global = small.batch.micro * setup.replicas * std::min(micro_batches, most);
  return small;
}

StackResult compile_and_run(const RunSetup& setup, int steps, Graph* graph) {
  const std::int64_t vocab = setup.model->vocab().value_or(kDefaultVocab);
  CompileRequest request = setup.request(GraphMode::training, vocab);
  request.float_type = DType::f64;
  const std::unique_ptr<Device> device = setup.make_device(0, setup.mesh.rank_count());
  request.device = device.get();
  const Compiled compiled = setup.compile(request);
  if (graph != nullptr) *graph = compiled.graph;
  RandomInputs inputs(request.seed, vocab);
  const std::unique_ptr<World> world = setup.make_world();
  const int ranks = setup.mesh.rank_count();
  const auto make_rank_device = [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, ranks); };
  return run_stack(compiled, *world, make_rank_device, {request.seed, setup.configuration.optimizer.lr, steps}, inputs);
}

}  // namespace

Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                          const VerificationOptions& options) {
  RunConfiguration wanted = configuration;
  wanted.device = {configuration.device.path, options.device, {}};
  wanted.communicator = {configuration.communicator.path, "local", {}};
  if (!options.full) wanted = shrink(wanted, registry);
  const RunSetup stack = prepare(wanted, registry);
  RunConfiguration alone = wanted;
  alone.strategies.clear();
  alone.device = {configuration.device.path, "reference", {}};
  const RunSetup single = prepare(alone, registry);

  Verification verification;
  verification.configuration = stack.configuration;
  verification.mesh = stack.mesh;
  Graph graph;
  verification.single = compile_and_run(single, options.steps, &graph);
  verification.stack = compile_and_run(stack, options.steps, nullptr);
  verification.difference = compare(verification.stack, verification.single, graph);
  return verification;
}

}  // namespace strata::host
