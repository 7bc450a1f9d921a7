#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/document.hpp"
#include "config/learning_rate.hpp"
#include "strata/options.hpp"

namespace strata::host {

/// \file
/// The default values of members are those of their keys (sections.cpp).

/// What run.accept_changed may name.
inline constexpr std::array<const char*, 4> kChangeableSettings = {"seed", "batch", "model", "data"};

/// When the files of a checkpoint are written.
enum class CheckpointMode : std::uint8_t {
  background,  ///< while training goes on, from a copy in host memory
  foreground   ///< before training goes on, through a small buffer in host memory
};

/// The mesh axis that `strata launch` makes smaller when hosts are gone.
struct ShrinkSection {
  /// Empty: none, and the run needs all its ranks.
  std::string axis;
  /// The smallest size.
  std::int64_t min = 1;

  bool operator==(const ShrinkSection&) const = default;
};

struct RunSection {
  std::string name = "run";
  /// Steps of the schedules.
  std::int64_t steps = 1000;
  /// 0: `steps`.
  std::int64_t stop_at_step = 0;
  std::int64_t seed = 1337;
  /// Never empty in a configuration that was read.
  std::string output = {};
  std::int64_t checkpoint_every = 0;
  std::int64_t keep_checkpoints = 3;
  CheckpointMode checkpoint_mode = CheckpointMode::background;
  std::int64_t eval_every = 0;
  std::int64_t eval_batches = 0;
  std::int64_t log_every = 10;
  /// Threads of a process that read samples. 0: half of its cores.
  std::int64_t data_threads = 0;
  /// Empty, "auto", or a checkpoint or folder of checkpoints.
  std::string resume = {};
  /// Names of settings that may differ from the checkpoint's.
  std::vector<std::string> accept_changed = {};
  /// Durations as parse_duration() reads them, or empty.
  std::string stop_after = {};
  std::string stop_before_job_end = {};
  /// Seconds; 0: none.
  double watchdog = 60;
  /// Seconds; 0: no limit.
  double stop_grace = 30;
  ShrinkSection shrink = {};

  /// The run is complete after this many steps.
  [[nodiscard]] std::int64_t last_step() const { return stop_at_step > 0 ? stop_at_step : steps; }

  bool operator==(const RunSection&) const = default;
};

struct BatchSection {
  std::int64_t global = 0;
  std::int64_t micro = 1;

  bool operator==(const BatchSection&) const = default;
};

/// A section that selects a plugin.
struct PluginSection {
  /// Path of the section for messages: "model", "strategy.0".
  std::string path;
  std::string plugin;
  /// The plugin's own options. At first those that the user wrote; after resolve_plugins() all of them, checked.
  std::map<std::string, OptionValue> options;

  bool operator==(const PluginSection&) const = default;
};

struct DataSection {
  PluginSection dataset;
  /// True if a run may continue on other data than its checkpoint's.
  bool allow_changed = false;

  bool operator==(const DataSection&) const = default;
};

/// Parameters that are updated in another way than the others.
struct OptimizerGroupSection {
  /// Without a plugin, the one of [optimizer] updates them.
  PluginSection optimizer;
  /// Patterns of names.
  std::vector<std::string> parameters;
  double lr_factor = 1;
  double weight_decay_factor = 1;
  bool frozen = false;

  bool operator==(const OptimizerGroupSection&) const = default;
};

/// An exponential moving average of the weights.
struct AverageSection {
  /// Share of the average that a step keeps. 0: no average.
  double decay = 0;
  /// True if evaluations read the average instead of the trained weights.
  bool evaluate = true;

  [[nodiscard]] bool is_evaluated() const { return decay > 0 && evaluate; }
  bool operator==(const AverageSection&) const = default;
};

/// Keys of the smallest value of [optimizer.schedule] and of [optimizer.weight_decay_schedule].
inline constexpr const char* kMinLearningRate = "min_lr";
inline constexpr const char* kMinFactor = "min_factor";

struct OptimizerSection {
  PluginSection optimizer;
  double lr = 1e-3;
  double weight_decay = 0.1;
  double clip = 1;
  double clip_value = 0;
  ScheduleSection schedule;
  /// Of the factor of weight decay, whose smallest value is the key kMinFactor.
  ScheduleSection weight_decay_schedule;
  AverageSection average;
  std::vector<OptimizerGroupSection> groups;

  bool operator==(const OptimizerSection&) const = default;
};

/// What a run does about a bad step.
enum class HealthAction : std::uint8_t {
  stop,   ///< ends the run
  skip,   ///< leaves out the update
  rewind  ///< goes back to a checkpoint and leaves out the data
};

/// Its word in a configuration.
[[nodiscard]] std::string action_word(HealthAction action);

/// Rules for steps whose loss or gradient norm cannot be right.
struct HealthSection {
  HealthAction not_finite = HealthAction::stop;
  HealthAction jump = HealthAction::stop;
  /// Factors of the median beyond which loss and gradient norm jump. 0: never.
  double loss_jump = 0;
  double norm_jump = 0;
  /// Good steps of which the medians are.
  std::int64_t window = 100;
  /// Steps in a row that are skipped before the run ends.
  std::int64_t max_skips = 10;
  /// Times that the run goes back before it ends.
  std::int64_t max_rewinds = 3;

  [[nodiscard]] bool finds_jumps() const { return loss_jump > 0 || norm_jump > 0; }
  /// True if a bad step of some kind is answered by `action`.
  [[nodiscard]] bool uses(HealthAction action) const {
    return not_finite == action || (finds_jumps() && jump == action);
  }
  bool operator==(const HealthSection&) const = default;
};

/// Which parameters have one gradient norm together in the logs.
enum class NormGroups : std::uint8_t {
  automatic,       ///< those of a layer if TensorBoard files are written, else none
  none,            ///< the global norm only
  layer,           ///< those of a layer, by their names
  optimizer_group  ///< those of an [[optimizer.group]]
};

/// What a run writes about its steps, besides the log of --log-json.
struct LogSection {
  bool tensorboard = false;
  NormGroups norm_groups = NormGroups::automatic;
  /// Rate of matrix products of one rank's device, in 10^12 FLOP/s. 0: measured.
  double peak_tflops = 0;
  /// Files that monitoring reads. Empty: none.
  std::string metrics = {};
  std::string heartbeat = {};

  /// The groups, never automatic.
  [[nodiscard]] NormGroups chosen_groups() const {
    if (norm_groups != NormGroups::automatic) return norm_groups;
    return tensorboard ? NormGroups::layer : NormGroups::none;
  }
  bool operator==(const LogSection&) const = default;
};

struct DocumentNode;

/// The table [cluster], which host/cluster reads. Null: there is none.
struct ClusterSection {
  std::shared_ptr<const DocumentNode> table;

  /// All are equal: predictions read it, and it changes nothing that a run computes.
  bool operator==(const ClusterSection&) const { return true; }
};

/// The user's configuration, typed, and checked as far as that is possible without loading plugins.
struct RunConfiguration {
  RunSection run;
  PluginSection model;
  /// The checkpoint or folder of Hugging Face from whose values training starts. Empty: initial values are random.
  /// prepare_run() opens it, fills `model` from it and empties this field.
  std::string model_from;
  DataSection data;
  BatchSection batch;
  OptimizerSection optimizer;
  HealthSection health;
  LogSection log;
  PluginSection device;
  PluginSection communicator;
  /// Strategies in mesh order, outermost axis first.
  std::vector<PluginSection> strategies;
  /// Plugins that register ops and kernels, in the order of registration.
  std::vector<PluginSection> libraries;
  ClusterSection cluster;

  ConfigurationPlaces places;

  /// Position of the value of `path`, for messages of later phases.
  [[nodiscard]] Place place(const std::string& path) const { return places.value(path); }
  /// An error "PLACE: PATH: MESSAGE". The message says what was found and what is accepted.
  [[nodiscard]] ConfigurationError error(const std::string& path, const std::string& message) const {
    return error_at(place(path), path, message);
  }

  bool operator==(const RunConfiguration&) const = default;
};

/// Reads a TOML file and applies `overrides`, the arguments of --set. Warm-up and decay must fit into the run, unless
/// --set gives the run's length. \throws ConfigurationError with file and line.
RunConfiguration load_configuration(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// Parses TOML text like load_configuration(). `source` is the text's name in messages. The run may be shorter than its
/// warm-up, because checkpoints keep the configurations of shortened runs.
RunConfiguration parse_configuration(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& overrides = {});

/// A table of a configuration's TOML text.
struct ConfigurationTable {
  /// As in messages: "optimizer.schedule", "strategy.0".
  std::string path;
  /// The host's keys, then the options of the section's plugin.
  std::vector<std::pair<std::string, OptionValue>> values;
};

/// Everything that the configuration says, in the order of its TOML text.
[[nodiscard]] std::vector<ConfigurationTable> configuration_tables(RunConfiguration configuration);

/// The configuration as TOML, which parses back to an equal one.
std::string to_toml(const RunConfiguration& configuration);

/// All options of a section's plugin, with defaults, checked against the schema. \throws ConfigurationError with the
/// position of the key.
Options resolve_options(const RunConfiguration& configuration, const PluginSection& section,
                        const OptionSchema& schema);

/// Checks conditions between several keys, and those that a key's own type and range do not say. \throws
/// ConfigurationError with file and line.
void check_configuration(const RunConfiguration& configuration);

/// Checks that warm-up and decay fit into the run. A run whose length is an argument of --set is not checked, so
/// `--set run.steps=2` tries any configuration. \throws ConfigurationError with file and line.
void check_schedule_lengths(const RunConfiguration& configuration);

}  // namespace strata::host
