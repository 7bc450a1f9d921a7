#include <cmath>
#include <set>

#include "conformance/check.hpp"
#include "conformance/stack_proof.hpp"
#include "conformance/subject.hpp"
#include "train/training_programs.hpp"
#include "verify/random_inputs.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

/// Repeats the data of the first step, so that a model can learn it.
class RepeatedInputs final : public InputSource {
 public:
  explicit RepeatedInputs(InputSource& inputs) : inputs_(inputs) {}
  void load(const InputPart& part, std::uint64_t /*step*/) override { inputs_.load(part, 0); }

 private:
  InputSource& inputs_;
};

/// The forward graph of the model with these options. `compiles`: its training step is compiled too.
Graph graph_of(Subject& subject, const Options& options, bool compiles) {
  RunConfiguration configuration = subject.configuration();
  subject.section(configuration).options = options.values();
  const RunSetup setup = prepare(configuration, subject.plugins());
  if (compiles) static_cast<void>(compile_step(setup, DType::f64));
  return forward_graph(setup.request(GraphMode::training, setup.sizes_without_data()));
}

std::int64_t parameter_elements(const Graph& graph) {
  std::int64_t count = 0;
  for (const Parameter& parameter : graph.parameters) count += element_count(graph.shape(parameter.value));
  return count;
}

/// Checks the model that shrink() makes for a request about one dimension.
void require_shrunk(Subject& subject, const Options& options, const Graph& full, const ShrinkRequest& request,
                    const std::string& what) {
  const ModelFactory& factory = subject.factory<ModelFactory>();
  const Options small = call_plugin(subject.origin(), "shrink", [&] { return factory.shrink(options, request); });
  const Graph graph = graph_of(subject, Options(factory.options(), small.values()), true);
  for (const auto& [dim, multiple] : request.multiples) {
    const auto size = graph.sizes.find(dim);
    if (size == graph.sizes.end() || size->second % multiple == 0 || graph.derived.contains(dim)) continue;
    throw CheckFailed(what + ": the small model has " + dim + " = " + std::to_string(size->second));
  }
  if (request.keeps_blocks && graph.block_count() != full.block_count()) {
    throw CheckFailed(what + ": the small model has " + std::to_string(graph.block_count()) +
                      " blocks; the model has " + std::to_string(full.block_count()));
  }
  if (request.multiples.empty() && parameter_elements(graph) > parameter_elements(full)) {
    throw CheckFailed("the small model has " + std::to_string(parameter_elements(graph)) +
                      " elements of parameters; the model has " + std::to_string(parameter_elements(full)));
  }
}

/// The dimensions along which a model is sharded and whose sizes its options choose: all but "batch".
std::set<Dim> shardable_dims(const Graph& graph) {
  std::set<Dim> dims;
  for (const Node& node : graph.nodes()) {
    for (const TensorType& type : node.results) dims.insert(type.dims.begin(), type.dims.end());
  }
  dims.erase("batch");
  for (const auto& [dim, from] : graph.derived) dims.erase(dim);
  return dims;
}

std::string check_model_programs(Subject& subject) {
  RunConfiguration evaluated = subject.configuration();
  evaluated.run.eval_every = 1;
  const RunSetup setup = prepare(evaluated, subject.plugins());
  const std::unique_ptr<Device> device = setup.make_device(0, 1);
  static_cast<void>(compile_training(setup, setup.sizes_without_data(), device.get()));
  const Graph graph = forward_graph(setup.request(GraphMode::training, setup.sizes_without_data()));
  return std::to_string(graph.parameters.size()) + " parameters with " + std::to_string(parameter_elements(graph)) +
         " elements, " + std::to_string(graph.block_count()) + " blocks";
}

std::string check_model_gradients(Subject& subject) {
  const OpVerification found = verify_ops(subject.configuration(), subject.plugins(), {.full = true});
  for (const GradientCheck& each : found.gradients) {
    if (each.holds()) continue;
    throw CheckFailed(
        "the gradient of op '" + each.op + "' of " + each.origin + " at node '" + each.node +
        "' is wrong: " + (each.fault.empty() ? "relative difference " + std::to_string(each.error) : each.fault));
  }
  return std::to_string(found.gradients.size()) + " gradients";
}

std::string check_model_accumulation(Subject& subject) {
  ProvedStacks proved(subject);
  proved.add("on one rank", subject.prover().prove(subject.configuration()));
  return proved.summary();
}

std::string check_model_stacks(Subject& subject) { return prove_with_every_strategy(subject, false); }

std::string check_model_shrinking(Subject& subject) {
  const Options options = subject.options_in_full();
  const Graph full = graph_of(subject, options, false);
  require_shrunk(subject, options, full, {}, "without a condition");
  require_shrunk(subject, options, full, {.multiples = {}, .keeps_blocks = true}, "keeping blocks");
  int dims = 0;
  for (const Dim& dim : shardable_dims(full)) {
    // Strategies only shard sizes that the number of ranks divides.
    if (full.sizes.at(dim) % 2 != 0) continue;
    require_shrunk(subject, options, full, {.multiples = {{dim, 2}}}, "with an even " + dim);
    ++dims;
  }
  return std::to_string(dims) + " dimensions";
}

std::string check_model_learning(Subject& subject) {
  constexpr int kSteps = 20;
  const RunSetup setup = prepare(subject.configuration(), subject.plugins());
  const Compiled compiled = compile_step(setup, DType::f32);
  RandomInputs random(subject.seed(), setup.inputs, setup.sizes_without_data());
  RepeatedInputs inputs(random);
  const StackResult result = run_stack(compiled, *setup.make_world(), devices_of(setup),
                                       {subject.seed(), setup.configuration.optimizer.lr, kSteps}, inputs);
  for (const double loss : result.losses) {
    if (!std::isfinite(loss)) throw CheckFailed("the loss becomes " + std::to_string(loss));
  }
  const double first = result.losses.front();
  const double last = result.losses.back();
  if (last >= first) {
    throw CheckFailed("the loss of one repeated batch does not fall: " + std::to_string(first) + " at first, " +
                      std::to_string(last) + " after " + std::to_string(kSteps) + " steps");
  }
  return "loss " + std::to_string(first) + " falls to " + std::to_string(last);
}

}  // namespace

std::vector<Check> model_checks() {
  return {
      {"M01", "The training step and the evaluation pass compile, with inputs that the dataset has.",
       "Every run ends before its first step.", check_model_programs},
      {"M02", "The gradient of every op in its graph equals finite differences in f64.",
       "The model learns the wrong thing.", check_model_gradients},
      {"M03", "Several micro-batches train as one large batch does.",
       "The batch's division changes what the model learns.", check_model_accumulation},
      {"M04", "With each installed strategy it trains as one rank does, or is refused.",
       "The model cannot be trained in parallel, or learns something else there.", check_model_stacks},
      {"M05", "`shrink` gives a valid model that is no larger and keeps what is asked for.",
       "`strata verify` takes hours, or proves something else.", check_model_shrinking},
      {"M06", "The loss is finite and falls when one random batch is repeated.", "The model cannot learn.",
       check_model_learning},
  };
}

}  // namespace strata::host
