#include "train/verification.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "runtime/shards.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kDefaultVocab = 256;

/// Tokens drawn by global index, so that every layout sees the same; one target in five is left out, so that ranks
/// count unequally.
class RandomInputs final : public InputSource {
 public:
  RandomInputs(std::uint64_t seed, std::int64_t vocab) : seed_(seed), vocab_(vocab) {}

  void load(const std::string& name, std::uint64_t step, const std::vector<IndexMap>& dims,
            std::int32_t* destination) override {
    const std::uint64_t key = random::stream_key(seed_, "input/" + name, step);
    fill(name, key, dims, 0, 0, destination);
  }

 private:
  void fill(const std::string& name, std::uint64_t key, const std::vector<IndexMap>& dims, std::size_t dim,
            std::int64_t index, std::int32_t*& destination) const {
    if (dim == dims.size()) {
      *destination++ = value(name, key, index);
      return;
    }
    for (const IndexSegment& segment : dims[dim].segments) {
      for (std::int64_t i = 0; i < segment.length; ++i) {
        fill(name, key, dims, dim + 1, index * dims[dim].global_size + segment.global_begin + i, destination);
      }
    }
  }

  [[nodiscard]] std::int32_t value(const std::string& name, std::uint64_t key, std::int64_t index) const {
    if (name == "positions") return static_cast<std::int32_t>(index);
    const auto element = static_cast<std::uint64_t>(index);
    if (name == "targets" && random::word(key + 1, element) < random::drop_threshold(0.2)) return -1;
    return static_cast<std::int32_t>(random::below(key, element, static_cast<std::uint64_t>(vocab_)));
  }

  std::uint64_t seed_;
  std::int64_t vocab_;
};

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

RunConfiguration shrink(const RunConfiguration& configuration, PluginRegistry& registry) {
  const RunSetup setup = prepare(configuration, registry);
  RunConfiguration small = setup.configuration;
  small.model.options =
      setup.plugins.model.factory->shrink(setup.plugins.model.options, required_multiples(setup)).values();
  const std::int64_t micro_batches = configuration.batch.global / (configuration.batch.micro * setup.replicas);
  small.batch.micro = std::min<std::int64_t>(configuration.batch.micro, 2);
  small.batch.global = small.batch.micro * setup.replicas * std::min<std::int64_t>(micro_batches, 3);
  return small;
}

/// Collects the ranks' parts of the parameters into whole tensors and notes where replicas differ.
class ParameterCollector {
 public:
  explicit ParameterCollector(StackResult& result) : result_(result) {}

  void add(Executor& executor) {
    const Program& program = executor.program();
    for (const StoredParameter& parameter : program.parameters) {
      const Shard shard(parameter, program.mesh, executor.rank());
      std::vector<double> local(static_cast<std::size_t>(shard.local_elements()));
      executor.read(parameter.value, local.data());
      const std::lock_guard lock(mutex_);
      std::vector<double>& whole = result_.parameters[parameter.name];
      whole.resize(static_cast<std::size_t>(shard.global_elements()), std::numeric_limits<double>::quiet_NaN());
      shard.for_each_run([&](std::int64_t from, std::int64_t to, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i) {
          put(whole[static_cast<std::size_t>(to + i)], local[static_cast<std::size_t>(from + i)]);
        }
      });
    }
  }

 private:
  void put(double& element, double value) {
    if (!std::isnan(element))
      result_.replica_difference = std::max(result_.replica_difference, std::abs(element - value));
    element = value;
  }

  StackResult& result_;
  std::mutex mutex_;
};

double relative(double found, double expected) {
  const double difference = std::abs(found - expected);
  // NaN must not pass for small.
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : difference / std::max(std::abs(expected), std::numeric_limits<double>::min());
}

/// Relative to the largest element, since single ones may be near zero.
double relative(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) || std::isnan(expected[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  return difference == 0 ? 0 : difference / std::max(largest, std::numeric_limits<double>::min());
}

double worst_step(const std::vector<double>& found, const std::vector<double>& expected) {
  double worst = found.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    worst = std::max(worst, relative(found[i], expected[i]));
  }
  return worst;
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
  return run_stack(setup, compiled, steps, inputs);
}

}  // namespace

double StackDifference::worst() const { return std::max({loss, gradient_norm, parameter}); }

StackResult run_stack(const RunSetup& setup, const Compiled& compiled, int steps, InputSource& inputs) {
  const auto ranks = static_cast<std::size_t>(compiled.mesh.rank_count());
  StackResult result;
  result.planned_peak_bytes.resize(ranks);
  result.arena_peak_bytes.resize(ranks);
  ParameterCollector parameters(result);
  const auto seed = static_cast<std::uint64_t>(setup.configuration.run.seed);
  const std::unique_ptr<World> world = setup.make_world();
  const auto make_device = [&](int rank) -> std::shared_ptr<Device> {
    return setup.make_device(rank, static_cast<int>(ranks));
  };
  run_rank_threads(*world, make_device, [&](Device& device, Communicator& communicator) {
    const int rank = communicator.rank();
    const MemoryPlan& plan = compiled.plan(rank);
    const auto arena = std::make_shared<Arena>(device, plan.arena_bytes);
    Executor executor(compiled.program(rank), plan, rank, seed, device, communicator, arena);
    initialize(executor, seed);
    for (int step = 0; step < steps; ++step) {
      const Reports reports = executor.run(static_cast<std::uint64_t>(step), setup.configuration.optimizer.lr, inputs);
      if (rank != 0) continue;
      result.losses.push_back(reports.at("loss") / reports.at("count"));
      result.gradient_norms.push_back(reports.at("grad_norm"));
    }
    result.planned_peak_bytes[static_cast<std::size_t>(rank)] = plan.arena_bytes;
    result.arena_peak_bytes[static_cast<std::size_t>(rank)] = arena->peak_bytes();
    parameters.add(executor);
  });
  return result;
}

StackDifference compare(const StackResult& stack, const StackResult& single, const Graph& graph) {
  StackDifference difference;
  difference.loss = worst_step(stack.losses, single.losses);
  difference.gradient_norm = worst_step(stack.gradient_norms, single.gradient_norms);
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.gradient_is_zero) {
      difference.excluded.push_back(parameter.name);
      continue;
    }
    const auto found = stack.parameters.find(parameter.name);
    const double each = found == stack.parameters.end() ? std::numeric_limits<double>::infinity()
                                                        : relative(found->second, single.parameters.at(parameter.name));
    if (each >= difference.parameter) {
      difference.parameter = each;
      difference.worst_parameter = parameter.name;
    }
  }
  return difference;
}

Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                          const VerificationOptions& options) {
  RunConfiguration wanted = configuration;
  wanted.device = {configuration.device.path, "reference", {}};
  wanted.communicator = {configuration.communicator.path, "local", {}};
  if (!options.full) wanted = shrink(wanted, registry);
  const RunSetup stack = prepare(wanted, registry);
  RunConfiguration alone = wanted;
  alone.strategies.clear();
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
