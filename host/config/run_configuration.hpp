#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/place.hpp"
#include "strata/options.hpp"

namespace strata::host {

/// Where the keys of a configuration were written, by path ("batch.global", "strategy.0.size").
class ConfigurationPlaces {
 public:
  explicit ConfigurationPlaces(std::string source = "") : source_(std::move(source)) {}

  void add(const std::string& path, const Place& key, const Place& value) { places_[path] = {key, value}; }
  /// The place of the value; of the enclosing section, or of the whole source, where the key is not written.
  [[nodiscard]] Place value(const std::string& path) const;
  /// The same for the key itself.
  [[nodiscard]] Place key(const std::string& path) const;

 private:
  struct Entry {
    Place key;
    Place value;
  };

  [[nodiscard]] const Entry* nearest_entry(std::string path) const;

  std::string source_;
  std::map<std::string, Entry> places_;
};

struct RunSection {
  std::string name;
  std::int64_t steps = 0;
  std::int64_t seed = 0;
  /// Never empty.
  std::string output;
  std::int64_t checkpoint_every = 0;
  std::int64_t keep_checkpoints = 0;
  std::int64_t eval_every = 0;
  std::int64_t eval_batches = 0;
  std::int64_t log_every = 0;

  bool operator==(const RunSection&) const = default;
};

enum class DataFormat : std::uint8_t { text, tokens };
enum class TokenizerKind : std::uint8_t { bytes, chars };

struct DataSection {
  std::string path;
  DataFormat format = DataFormat::text;
  TokenizerKind tokenizer = TokenizerKind::bytes;
  double validation = 0;

  bool operator==(const DataSection&) const = default;
};

struct BatchSection {
  std::int64_t global = 0;
  std::int64_t micro = 0;

  bool operator==(const BatchSection&) const = default;
};

enum class OptimizerKind : std::uint8_t { adamw, sgd };
enum class ScheduleKind : std::uint8_t { constant, warmup, warmup_cosine };
enum class WarmupType : std::uint8_t { linear, logarithmic };

struct ScheduleSection {
  ScheduleKind kind = ScheduleKind::constant;
  std::int64_t warmup = 0;
  WarmupType warmup_type = WarmupType::linear;
  double min_lr = 0;

  bool operator==(const ScheduleSection&) const = default;
};

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double momentum = 0;
  double weight_decay = 0;
  double clip = 0;
  ScheduleSection schedule;

  bool operator==(const OptimizerSection&) const = default;
};

/// A section that names a plugin.
struct PluginSection {
  /// "model", "strategy.0": for messages.
  std::string path;
  std::string plugin;
  /// The plugin's own options as they were written; after resolve_plugins() all of them, checked.
  std::map<std::string, OptionValue> options;

  bool operator==(const PluginSection&) const = default;
};

/// What the user asked for, typed and checked as far as it can be without the plugins.
struct RunConfiguration {
  RunSection run;
  PluginSection model;
  DataSection data;
  BatchSection batch;
  OptimizerSection optimizer;
  PluginSection device;
  PluginSection communicator;
  /// Outermost axis first.
  std::vector<PluginSection> strategies;

  ConfigurationPlaces places;

  /// Where the value of `path` was written, for messages of later phases.
  [[nodiscard]] Place place(const std::string& path) const { return places.value(path); }
  /// "PLACE: PATH: MESSAGE"; the message says what was found and what is accepted.
  [[nodiscard]] ConfigurationError error(const std::string& path, const std::string& message) const;

  /// Equal in everything but where it was written.
  bool operator==(const RunConfiguration& other) const;
};

/// Reads a TOML file; `overrides` are arguments of --set. \throws ConfigurationError with the place of the mistake.
RunConfiguration load_configuration(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// The same of a text; `source` names it in messages.
RunConfiguration parse_configuration(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& overrides = {});

/// TOML that parses back to an equal configuration.
std::string to_toml(const RunConfiguration& configuration);

/// The plugin's options with defaults filled in, checked against the plugin's schema. \throws ConfigurationError with
/// the place of the key.
Options resolve_options(const RunConfiguration& configuration, const PluginSection& section,
                        const OptionSchema& schema);

}  // namespace strata::host
