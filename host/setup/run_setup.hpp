#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/compile.hpp"
#include "config/learning_rate.hpp"
#include "config/run_configuration.hpp"
#include "data/data_source.hpp"
#include "loading/plugin_registry.hpp"
#include "loading/resolved_plugins.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/op.hpp"

namespace strata::host {

class CheckpointReader;

/// A configuration with its plugins loaded, and the objects that they create. Every command that compiles or runs
/// starts from it. Callers change the configuration first to substitute sizes, devices or strategies. The plugin
/// registry outlives the setup.
struct RunSetup {
  /// The configuration with the values of all options, including defaults.
  RunConfiguration configuration;
  ResolvedPlugins plugins;
  /// Ops and kernels of Strata and all plugins. Devices and programs refer to them.
  std::unique_ptr<OpRegistry> ops = std::make_unique<OpRegistry>();
  std::unique_ptr<KernelRegistry> kernels = std::make_unique<KernelRegistry>();
  std::shared_ptr<const Model> model;
  /// The values from which training starts. Null: those of the model's initialisation.
  std::shared_ptr<const CheckpointReader> initial;
  /// The sizes that the model's options fix.
  DimSizes model_sizes;
  /// The inputs that the dataset has.
  std::vector<DatasetInput> inputs;
  /// What the loss sums over, in the singular: "token".
  std::string unit;
  Stack stack;
  OptimizerSettings optimizer;
  /// Element type of parameters and activations. Verification sets f64.
  DType float_type = DType::f32;
  /// What was decided of the options that the configuration leaves open (tune()), one sentence for each strategy.
  std::vector<std::string> decisions;
  /// Measures the phases of compilation. Null: nobody does.
  PhaseTimes* times = nullptr;

  /// Joins the sizes that the model's options fix with those that the data fixes. \throws ConfigurationError if both
  /// fix a size and do not agree.
  [[nodiscard]] DimSizes sizes(const DimSizes& data) const;
  /// The sizes that the data fixes. `vocab` stands for the data, which is then not opened: the size of all dimensions
  /// that its values only index, but for those after the first that the model fixes, such as classes.
  [[nodiscard]] DimSizes data_sizes(std::optional<std::int64_t> vocab) const;
  /// The sizes that the dataset knows without its files.
  [[nodiscard]] DimSizes known_data_sizes() const;
  /// Sizes for a run from random inputs, which needs no data: the model's, else those that the dataset knows without
  /// its files, else small ones.
  [[nodiscard]] DimSizes sizes_without_data() const;
  /// The request to compile a training step, or an evaluation pass over as many samples.
  [[nodiscard]] CompileRequest request(GraphMode mode, DimSizes sizes) const;
  /// Compiles. Errors about the model or sizes get their file and line in the configuration.
  [[nodiscard]] Compiled compile(const CompileRequest& request, const Compiled* beside = nullptr) const;
  /// The placement of blocks, without further compilation. Errors get their file and line as in compile().
  [[nodiscard]] Stages find_stages(const CompileRequest& request) const;
  /// Makes the device of a rank of `world`.
  [[nodiscard]] std::unique_ptr<Device> make_device(int rank, const World& world) const;
  /// Makes the device of a rank if this process has all `ranks`.
  [[nodiscard]] std::unique_ptr<Device> make_device(int rank, int ranks) const;
  /// Number of threads with which this process reads samples, at least 1.
  [[nodiscard]] int data_threads(const World& world) const;
  /// Makes the run's ranks. \throws ConfigurationError also if `strata launch` started several processes that would
  /// each run all ranks.
  [[nodiscard]] std::unique_ptr<World> make_world() const;
  /// Makes a world of `ranks` in this process, which need not be those of the run. \throws PluginError.
  [[nodiscard]] std::unique_ptr<World> make_world(int ranks) const;
  /// How the model continues a text. \throws ConfigurationError if it does not.
  [[nodiscard]] Generation generation() const;
  /// The token before or behind texts that the dataset's option of that role names. Empty if it has none.
  [[nodiscard]] std::optional<std::int32_t> text_token(OptionRole role) const;
  /// Opens the data. Checks that training, and validation if the run evaluates, have a sample.
  [[nodiscard]] DataSource open_data() const;
  /// Bytes of a device's memory that the plan of a rank may use in this run.
  [[nodiscard]] std::int64_t memory_bytes(const Device& device) const;
  /// What the communicator of this run supports in `world`.
  [[nodiscard]] CommunicatorLimits limits(const World& world) const;
  /// Folder of the offload file of a rank with this program.
  [[nodiscard]] std::filesystem::path offload_directory(const Program& program) const;
  /// The smallest options of the model that fit `request`.
  [[nodiscard]] Options shrunk_model(const ShrinkRequest& request) const;
  /// The seed of the run, which determines initial values, dropout and the order of the data.
  [[nodiscard]] std::uint64_t seed() const;

 private:
  [[nodiscard]] std::unique_ptr<Device> make_device(const DeviceRequest& request) const;
  /// Checks that the model's graph for `request` fits the dataset and the commands. Its inputs must be inputs of the
  /// dataset with the same dimensions and types, and the output of its generation must exist. \throws PluginError that
  /// names both sides.
  void require_contract(const CompileRequest& request) const;
  /// Runs `call`. A ConfigurationError gets the file and line of the plugin that caused it, or else of the model.
  template <class Call>
  auto at_culprit(const Call& call) const;
};

/// Loads the plugins, creates model and strategies, and checks mesh, batch sizes and run.shrink. Reads no data.
/// `initial`: the values that [model] from names, whose model the configuration has; prepare_run() opens them. \throws
/// ConfigurationError with file and line.
[[nodiscard]] RunSetup prepare(RunConfiguration configuration, PluginRegistry& registry,
                               std::shared_ptr<const CheckpointReader> initial = nullptr);

/// The option that gives the axis of run.shrink its ranks.
struct ShrinkingOption {
  /// The table of its strategy among the [[strategy]] tables.
  std::size_t table = 0;
  std::string name;
};

/// \throws ConfigurationError if no strategy has the axis, or none of its options gives the axis its ranks.
[[nodiscard]] ShrinkingOption find_shrinking_option(const RunSetup& setup);

/// How many ranks a launcher starts in each process: the value of the communicator's option of that role, or 1 if it
/// has none. \throws ConfigurationError if the processes would not all have as many.
[[nodiscard]] int ranks_per_process(const RunSetup& setup);

/// The factor of weight decay by step.
[[nodiscard]] LearningRateSchedule weight_decay_schedule(const RunConfiguration& configuration);

[[nodiscard]] LearningRateSchedule learning_rate_schedule(const RunConfiguration& configuration);

}  // namespace strata::host
