#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "conformance/check.hpp"
#include "conformance/stack_proof.hpp"
#include "conformance/subject.hpp"
#include "data/data_source.hpp"
#include "strata/random.hpp"
#include "train/run_recorder.hpp"
#include "train/trainer.hpp"
#include "verify/random_inputs.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

/// Samples of random data.
constexpr std::int64_t kSamples = 256;

class RandomDataset final : public Dataset {
 public:
  RandomDataset(std::vector<DatasetInput> inputs, DimSizes sizes)
      : inputs_(std::move(inputs)), sizes_(std::move(sizes)) {}

  [[nodiscard]] DimSizes sizes() const override { return sizes_; }
  [[nodiscard]] std::int64_t samples(DataSplit /*split*/) const override { return kSamples; }

  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (destinations[i] != nullptr && inputs_[i].per_sample) fill(inputs_[i], key, destinations[i]);
    }
  }
  void read_common(std::span<void* const> destinations) const override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (destinations[i] != nullptr && !inputs_[i].per_sample) fill(inputs_[i], {}, destinations[i]);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "random"; }
  [[nodiscard]] std::string description() const override { return std::to_string(kSamples) + " random samples"; }

 private:
  void fill(const DatasetInput& input, const SampleKey& key, void* destination) const {
    std::vector<IndexMap> dims;
    if (input.per_sample) dims.push_back(IndexMap::whole(1));
    for (const Dim& dim : input.dims) dims.push_back(IndexMap::whole(sizes_.at(dim)));
    const std::uint64_t seed = key.split == DataSplit::training ? key.seed : ~key.seed;
    RandomInputs(seed, inputs_, sizes_)
        .load({input.name, dims, input.dtype, static_cast<std::byte*>(destination)},
              static_cast<std::uint64_t>(key.index));
  }

  std::vector<DatasetInput> inputs_;
  DimSizes sizes_;
};

/// The sizes of the dimensions that inputs have or index.
DimSizes sizes_of_inputs(const RunSetup& setup) {
  const DimSizes all = setup.sizes_without_data();
  DimSizes sizes;
  for (const DatasetInput& input : setup.inputs) {
    for (const Dim& dim : input.dims) sizes[dim] = all.at(dim);
    if (!input.indexes.empty()) sizes[input.indexes] = all.at(input.indexes);
  }
  return sizes;
}

/// Data of a run without files: random values for every input that the configured dataset declares.
DataSource random_data(const RunSetup& setup) {
  return {setup.plugins.dataset.origin, setup.inputs,
          std::make_unique<RandomDataset>(setup.inputs, sizes_of_inputs(setup))};
}

constexpr std::uint64_t kRunSteps = 6;
constexpr std::uint64_t kInterruptedAfter = 3;

/// Trains and writes a checkpoint after the last step. \return its folder.
std::filesystem::path train_to_checkpoint(const RunSetup& setup, const std::filesystem::path& folder,
                                          std::uint64_t stop_after, const std::filesystem::path& resume = {}) {
  const DataSource data = random_data(setup);
  RunRecorder observer(stop_after);
  Trainer(setup, data, {folder, 0, 0}, {resume}, observer).run();
  return observer.last_checkpoint();
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Names of the files with tensors that differ.
std::vector<std::string> differing_files(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::vector<std::string> differing;
  for (const auto& entry : std::filesystem::directory_iterator(a)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = entry.path().filename().string();
    if (bytes_of(entry.path()) != bytes_of(b / name)) differing.push_back(name);
  }
  return differing;
}

/// Compares an interrupted run with one that was not.
void require_equal_resumption(const RunConfiguration& configuration, PluginRegistry& plugins,
                              const std::string& description) {
  const TemporaryFolder folder;
  const RunSetup setup = prepare(configuration, plugins);
  const std::filesystem::path whole = train_to_checkpoint(setup, folder.path() / "whole", kRunSteps);
  const std::filesystem::path stopped = train_to_checkpoint(setup, folder.path() / "parts", kInterruptedAfter);
  const std::filesystem::path resumed = train_to_checkpoint(setup, folder.path() / "parts", kRunSteps, stopped);
  const std::vector<std::string> differing = differing_files(whole, resumed);
  if (!differing.empty()) {
    throw CheckFailed(description + ": a run that is interrupted after step " + std::to_string(kInterruptedAfter) +
                      " and resumed differs after step " + std::to_string(kRunSteps) + " in " + join(differing, ", "));
  }
}

/// A strategy whose loss scale makes gradients infinite in f32 in the first two steps, and is 1 in the third.
class OverflowingLoss final : public Strategy {
 public:
  void rewrite_forward(Graph& graph, const OpRegistry& /*registry*/) const override {
    graph.loss_scaling = LossScaling{.initial = 0x1p900, .dynamic = true, .backoff = 0x1p-450};
  }
};

StackResult run_steps(const RunSetup& setup, const Compiled& compiled, int steps) {
  RandomInputs inputs = random_inputs(setup);
  return run_stack(compiled, *setup.make_world(), devices_of(setup),
                   {setup.seed(), setup.configuration.optimizer.lr, steps}, inputs);
}

std::string check_optimizer_definition(Subject& subject) {
  ProvedStacks proved(subject);
  for (const CheckedRun& run : subject.runs()) {
    proved.add(run.where + "on one rank", subject.prover().prove(run.configuration));
  }
  return proved.summary();
}

std::string check_optimizer_stacks(Subject& subject) { return prove_with_every_strategy(subject, true); }

std::string check_optimizer_small_parameters(Subject& subject) {
  if (subject.has_configuration()) throw CheckSkipped("the small parameters are those of the built-in small run");
  ProvedStacks proved(subject);
  StackProver prover = subject.prover(kMostStepsOfMany);
  RunConfiguration small = subject.configuration();
  small.model.options["heads"] = std::int64_t{1};
  small.model.options["embed"] = std::int64_t{2};
  for (PluginSection& strategy : installed_strategies(subject.plugins())) {
    const OptionSchema& schema = subject.plugins().load<StrategyFactory>(strategy.plugin).options();
    const OptionSpecification* size = schema.find(OptionRole::axis_size, OptionType::integer);
    if (size == nullptr) continue;
    strategy.options[size->name] = std::int64_t{4};
    small.strategies = {strategy};
    proved.add("parameters of 2 elements on 4 ranks of '" + strategy.plugin + "'", prover.prove(small));
  }
  return proved.summary();
}

std::string check_optimizer_resumption(Subject& subject) {
  RunConfiguration configuration = subject.configuration();
  configuration.run.steps = static_cast<std::int64_t>(kRunSteps);
  require_equal_resumption(configuration, subject.plugins(), "on one rank");
  int stacks = 1;
  for (const PluginSection& strategy : installed_strategies(subject.plugins())) {
    configuration.strategies = {strategy};
    try {
      require_equal_resumption(configuration, subject.plugins(), "with strategy '" + strategy.plugin + "'");
      ++stacks;
    } catch (const ConfigurationError&) {
      // The stack is refused, which another check reports.
    }
  }
  return std::to_string(stacks) + " stacks";
}

std::string check_optimizer_skipped_step(Subject& subject) {
  const RunSetup setup = prepare(subject.configuration(), subject.plugins());
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = DType::f32;
  request.strategies.push_back({"the overflowing loss", std::make_shared<OverflowingLoss>()});
  const std::unique_ptr<Device> device = setup.make_device(0, 1);
  request.device = device.get();
  const Compiled compiled = setup.compile(request);
  const StackResult start = run_steps(setup, compiled, 0);
  const StackResult skipped = run_steps(setup, compiled, 2);
  const StackResult after = run_steps(setup, compiled, 4);
  if (std::isfinite(skipped.gradient_norms.at(0)) || std::isfinite(skipped.gradient_norms.at(1))) {
    throw CheckSkipped("the gradient of this run does not overflow");
  }
  bool changed = false;
  for (const auto& [name, values] : start.parameters) {
    if (skipped.parameters.at(name) != values) {
      throw CheckFailed("a step with an infinite gradient changes parameter '" + name + "'");
    }
    const std::vector<double>& later = after.parameters.at(name);
    changed = changed || later != values;
    for (const double value : later) {
      if (!std::isfinite(value)) {
        throw CheckFailed("after steps with an infinite gradient, a good step makes parameter '" + name + "' " +
                          std::to_string(value));
      }
    }
  }
  if (!changed) throw CheckFailed("after steps with an infinite gradient, good steps change no parameter");
  return "";
}

}  // namespace

std::vector<Check> optimizer_checks() {
  return {
      {"O01", "On one rank its instructions train as its definition does.",
       "The optimizer computes something else than it says.", check_optimizer_definition},
      {"O02", "With each installed strategy it trains as its definition does, or is refused.",
       "Sharded runs learn something else.", check_optimizer_stacks},
      {"O03", "Parameters with fewer elements than ranks, some with one dimension, are trained alike.",
       "Biases and gains of sharded models learn something else.", check_optimizer_small_parameters},
      {"O04", "A run that is resumed from a checkpoint is bitwise equal to one that was not interrupted.",
       "An interrupted run loses what the optimizer has learnt.", check_optimizer_resumption},
      {"O05", "A step whose gradient is not finite changes neither parameters nor states.",
       "One overflow of a 16-bit run destroys the model.", check_optimizer_skipped_step},
  };
}

}  // namespace strata::host
