#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/compile.hpp"
#include "config/run_configuration.hpp"
#include "plugins/plugin_registry.hpp"
#include "plugins/resolved_plugins.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/op.hpp"
#include "train/data/corpus.hpp"
#include "train/run/learning_rate.hpp"

namespace strata::host {

/// A configuration with its plugins loaded and the objects that they make: where every command begins that compiles
/// or runs. Other sizes, devices or strategies are had by changing the configuration first. Lives no longer than the
/// plugin registry.
struct RunSetup {
  /// With every option of every plugin written out.
  RunConfiguration configuration;
  ResolvedPlugins plugins;
  std::unique_ptr<OpRegistry> ops;
  std::shared_ptr<const Model> model;
  std::vector<NamedStrategy> strategies;
  Mesh mesh;
  /// Ranks over which the batch is split.
  std::int64_t replicas = 1;
  /// Element type of parameters and activations; a caller may choose f64.
  DType float_type = DType::f32;

  /// Rows of the model's vocabulary for data with this one. \throws ConfigurationError if the model has too few, or if
  /// neither says how many.
  [[nodiscard]] std::int64_t vocab(const Vocabulary& data) const;
  /// What to compile for a step, or a pass over as many sequences.
  [[nodiscard]] CompileRequest request(GraphMode mode, std::int64_t vocab) const;
  /// Compiles; what the model or the sizes do not allow is reported with its place in the configuration.
  [[nodiscard]] Compiled compile(const CompileRequest& request, const Compiled* beside = nullptr) const;
  /// Where the blocks go, without compiling further; reported in the same way.
  [[nodiscard]] Stages find_stages(const CompileRequest& request) const;
  /// The device of a rank of `world`.
  [[nodiscard]] std::unique_ptr<Device> make_device(int rank, const World& world) const;
  /// The same where all ranks are of this process.
  [[nodiscard]] std::unique_ptr<Device> make_device(int rank, int ranks) const;
  /// \throws ConfigurationError also if this process is one of several that would each run all ranks.
  [[nodiscard]] std::unique_ptr<World> make_world() const;
};

/// Loads the plugins, makes model and strategies, and checks what they say together (mesh, batch sizes). Touches no
/// data. \throws ConfigurationError with the place in the configuration.
[[nodiscard]] RunSetup prepare(RunConfiguration configuration, PluginRegistry& registry);

/// The data of a run, checked against the context that the model has and, where it is evaluated, the validation part.
[[nodiscard]] Corpus open_data(const RunConfiguration& configuration, std::int64_t context);

[[nodiscard]] OptimizerSettings optimizer_settings(const OptimizerSection& section);
[[nodiscard]] LearningRateSchedule learning_rate_schedule(const RunConfiguration& configuration);

}  // namespace strata::host
