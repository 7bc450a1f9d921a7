#include "verify/verification.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "compiler/program/step_variants.hpp"
#include "data/data_source.hpp"
#include "generate/text_scores.hpp"
#include "huggingface/initial_values.hpp"
#include "loading/resolved_plugins.hpp"
#include "plan/alike_blocks.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "setup/tuning.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"
#include "train/training_programs.hpp"
#include "verify/definition.hpp"

namespace strata::host {
namespace {

/// Number of pipeline stages; 0 if no strategy places blocks.
int stage_count(const RunSetup& setup) {
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  const Stages stages = setup.find_stages(request);
  return stages.scheduler ? stages.count : 0;
}

/// True if rules name some of several alike blocks, which a model with fewer of them may not have.
bool treats_blocks_apart(const RunSetup& setup) {
  const Graph graph = forward_graph(setup.request(GraphMode::training, setup.sizes_without_data()));
  return tell_apart_alike_blocks(graph, *setup.ops, setup.stack.rules);
}

/// Next tokens of each text, after its prompt.
constexpr std::int64_t kSteps = 3;

/// A text of random tokens.
class RandomText {
 public:
  RandomText(std::uint64_t number, std::int64_t vocabulary)
      : key_(random::stream_key(number, "verified text", 0)), vocabulary_(static_cast<std::uint64_t>(vocabulary)) {}

  void extend(GeneratedText& text, std::int64_t count) const {
    for (; count > 0; --count) {
      const auto index = static_cast<std::uint64_t>(text.tokens.size());
      text.tokens.push_back(static_cast<std::int32_t>(random::below(key_, index, vocabulary_)));
    }
  }

 private:
  std::uint64_t key_;
  std::uint64_t vocabulary_;
};

/// The scores of two texts of different lengths, as they grow. `source_context`: the most tokens of the sources that
/// they answer. 0: they answer none.
double compare_scores(TextScores& cached, TextScores& whole, std::int64_t context, std::int64_t source_context) {
  const std::int64_t steps = std::min(kSteps, context);
  std::vector<RandomText> contents;
  std::vector<GeneratedText> texts(2);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    contents.emplace_back(i, whole.vocabulary());
    contents.back().extend(texts[i], i == 0 ? context - steps + 1 : 1);
    if (source_context == 0) continue;
    GeneratedText source;
    RandomText(texts.size() + i, whole.vocabulary()).extend(source, i == 0 ? 1 : source_context);
    texts[i].source = source.tokens;
  }
  double worst = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    cached.compute({&texts[0], &texts[1]});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      GeneratedText same{texts[i].tokens, texts[i].source};
      whole.compute({&same});
      worst = std::max(worst, relative_difference(cached.scores(static_cast<std::int64_t>(i)), whole.scores(0)));
      contents[i].extend(texts[i], 1);
    }
  }
  return worst;
}

GenerationVerification compare_programs(const ScoresRequest& request, const DimSizes& sizes) {
  const auto whole = make_window_scores(request, sizes);
  const std::int64_t context = sizes.at(request.setup.generation().sequence);
  // A prompt takes several steps.
  const GenerationSizes generation{.texts = 2, .capacity = context, .chunk = std::max<std::int64_t>(1, context / 3)};
  std::optional<CachedPrograms> programs;
  try {
    programs = compile_cached(request.setup, sizes, request.device, generation);
  } catch (const ConfigurationError& error) {
    return {.missing = std::string("the model has no cache of keys and values: ") + error.what()};
  }
  const auto cached = make_cached_scores(request, *programs, generation);
  const std::optional<GenerationSource> source = request.setup.generation().source;
  return {.difference = compare_scores(*cached, *whole, context, source ? sizes.at(source->sequence) : 0)};
}

std::vector<GradientCheck> check_gradients_of(const RunSetup& setup, const VerifiedOps& progress) {
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = DType::f64;
  const std::unique_ptr<Device> reference = setup.make_device(0, 1);
  RandomInputs inputs = random_inputs(setup);
  return check_gradients(forward_graph(request), *setup.ops, *reference, inputs, setup.seed(), progress);
}

/// Kernels that all ranks launch in one run of their programs, if every instruction runs.
std::size_t launches(const Compiled& compiled) {
  std::size_t count = 0;
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) {
    const Program& program = compiled.program(rank);
    for (const TaskInstance& instance : program.schedule) {
      const auto& instructions = program.tasks.at(static_cast<std::size_t>(instance.task)).instructions;
      count += static_cast<std::size_t>(std::ranges::count_if(
          instructions, [&](const Instruction& each) { return each.as<Compute>() != nullptr && instance.runs(each); }));
    }
  }
  return count;
}

std::vector<KernelCheck> compare_kernels_of(const RunSetup& setup, int steps, const VerifiedOps& progress) {
  const VerifiedPrograms programs(setup, setup.float_type);
  const std::size_t all =
      static_cast<std::size_t>(steps) * (launches(programs.training) + launches(programs.evaluation)) +
      launches(programs.evaluation_alone);
  KernelComparisons comparisons([&](std::size_t done) {
    if (progress) progress("kernel launches", done, all);
  });
  const auto make_device = [&, inner = devices_of(setup)](int rank) {
    return std::shared_ptr<Device>(compare_kernels(inner(rank), *setup.kernels, comparisons));
  };
  static_cast<void>(programs.run(setup, *setup.make_world(), make_device, steps));
  return comparisons.checks();
}

}  // namespace

RunConfiguration shrink(const RunConfiguration& configuration, PluginRegistry& registry) {
  const RunSetup setup = prepare_run(configuration, registry);
  RunConfiguration small = setup.configuration;
  const int stages = stage_count(setup);
  const bool keeps_blocks = stages > 0 || treats_blocks_apart(setup);
  const std::map<Dim, std::int64_t> multiples = required_multiples(setup.stack);
  small.model.options = setup.shrunk_model({multiples, keeps_blocks}).values();
  const std::int64_t micro_batches = configuration.batch.global / (configuration.batch.micro * setup.stack.replicas);
  // A pipeline must fill and drain, and some schedules need a multiple of the number of stages.
  const std::int64_t most = stages > 0 ? std::int64_t{2} * stages : 3;
  const auto samples = multiples.find("batch");  // rules for some ops may divide the samples of a replica
  const std::int64_t shares = samples == multiples.end() ? 1 : samples->second / setup.stack.replicas;
  small.batch.micro = std::min<std::int64_t>(configuration.batch.micro, std::max<std::int64_t>(shares, 2));
  small.batch.global = small.batch.micro * setup.stack.replicas * std::min(micro_batches, most);
  return small;
}

MakeDevice devices_of(const RunSetup& setup) {
  return
      [&setup](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, setup.stack.mesh.rank_count()); };
}

RandomInputs random_inputs(const RunSetup& setup) { return {setup.seed(), setup.inputs, setup.sizes_without_data()}; }

Compiled compile_step(const RunSetup& setup, DType float_type) {
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = float_type;
  request.device = device.get();
  return setup.compile(request);
}

VerifiedPrograms::VerifiedPrograms(const RunSetup& setup, DType float_type, bool is_defined) {
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = float_type;
  request.optimizer.is_update_outside = is_defined;
  request.device = device.get();
  training = setup.compile(request);
  evaluation = compile_evaluation(setup, request, training);
  request.mode = GraphMode::evaluation;
  evaluation_alone = setup.compile(request);
}

StackSettings VerifiedPrograms::settings(const RunSetup& setup, int steps) const {
  return {.seed = setup.seed(),
          .learning_rate = setup.configuration.optimizer.lr,
          .steps = steps,
          .evaluation = &evaluation,
          .evaluation_alone = &evaluation_alone,
          .evaluates_average = setup.configuration.optimizer.average.is_evaluated()};
}

StackResult VerifiedPrograms::run(const RunSetup& setup, World& world, const MakeDevice& make_device, int steps) const {
  RandomInputs inputs = random_inputs(setup);
  return run_stack(training, world, make_device, settings(setup, steps), inputs);
}

StackResult run_setup_stack(const RunSetup& setup, DType float_type, int steps, const MakeDevice& make_device) {
  return VerifiedPrograms(setup, float_type).run(setup, *setup.make_world(), make_device, steps);
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
  RunSetup tuned = prepare_run(wanted, registry);
  tune(tuned, registry);
  wanted.strategies = tuned.configuration.strategies;
  // A small model may be sharded as the full one cannot be: 3 ranks share 6 heads, but not 4.
  if (options.compiles_full) static_cast<void>(compile_step(tuned, DType::f64));
  if (!options.full) wanted = shrink(wanted, registry);
  const RunSetup stack = prepare_run(wanted, registry);
  RunConfiguration alone = wanted;
  keep_model_strategies(alone, registry);
  // The same micro-batches, of which batch norms have the statistics.
  alone.batch.micro *= stack.stack.replicas;
  alone.communicator = local;
  alone.device = {configuration.device.path, reference, {}};
  RunSetup single = prepare_run(alone, registry);

  Verification verification;
  verification.configuration = stack.configuration;
  verification.mesh = stack.stack.mesh;
  const VerifiedPrograms programs(stack, DType::f64);
  const VerifiedPrograms single_programs(single, DType::f64, true);
  const StepVariants variants = step_variants(programs.training);
  const std::uint64_t enough = variants.steps_to_execute_all() + (variants.variants.size() > 1 ? 1 : 0);
  const int steps = std::max(options.steps, static_cast<int>(std::min<std::uint64_t>(enough, kMostVerifiedSteps)));
  for (const StepVariant& each : variants.variants) {
    if (each.step >= static_cast<std::uint64_t>(steps)) verification.missed.push_back(variants.describe(each));
  }
  RandomInputs inputs = random_inputs(single);
  verification.single = run_definition(single_programs.training, *single.make_world(), devices_of(single),
                                       single_programs.settings(single, steps), single.optimizer,
                                       find_replicas(stack.stack, programs.training, stack.inputs), inputs);
  verification.stack = programs.run(stack, *stack.make_world(), devices_of(stack), steps);
  verification.difference = compare(verification.stack, verification.single, single_programs.training.graph);
  if (options.generates) {
    single.float_type = DType::f64;
    verification.generation = verify_generation(single);
  }
  return verification;
}

GenerationVerification verify_generation(const RunSetup& setup) {
  const DimSizes sizes = setup.sizes_without_data();
  try {
    if (!sizes.contains(setup.generation().sequence)) return {.missing = "the length of texts has no size"};
  } catch (const ConfigurationError& error) {
    return {.missing = error.what()};
  }
  GenerationVerification result;
  const std::unique_ptr<World> world = setup.make_world();
  run_rank_threads(
      *world, [&](int rank) { return setup.make_device(rank, 1); },
      [&](Device& device, Communicator& communicator) {
        const auto restore = [&](Executor& executor) { initialize(executor, setup.seed()); };
        result = compare_programs({setup, restore, device, communicator}, sizes);
      });
  return result;
}

bool OpVerification::holds() const {
  return std::ranges::all_of(gradients, [](const GradientCheck& each) { return each.holds(); }) &&
         std::ranges::all_of(kernels, [](const KernelCheck& each) { return each.holds(); });
}

OpVerification verify_ops(const RunConfiguration& configuration, PluginRegistry& registry,
                          const VerificationOptions& options) {
  RunConfiguration wanted = configuration;
  if (!options.device.empty()) wanted.device = {configuration.device.path, options.device, {}};
  wanted.communicator = {configuration.communicator.path, "local", {}};
  if (!options.full) wanted = shrink(wanted, registry);
  const RunSetup stack = prepare_run(wanted, registry);
  RunConfiguration on_reference = wanted;
  on_reference.device = {configuration.device.path, "reference", {}};
  constexpr int kSteps = 2;
  return {check_gradients_of(prepare_run(on_reference, registry), options.progress),
          compare_kernels_of(stack, kSteps, options.progress), stack.configuration.device.plugin};
}

}  // namespace strata::host
