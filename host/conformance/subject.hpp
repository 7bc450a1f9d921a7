#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"
#include "conformance/check.hpp"
#include "conformance/stack_proof.hpp"
#include "loading/plugin_call.hpp"
#include "loading/plugin_registry.hpp"
#include "strata/error.hpp"

namespace strata::host {

/// A run in which plugins are checked unless the user gives one.
struct SmallRun {
  /// The model in messages.
  std::string model;
  std::string toml;
};

/// The first run is that of most checks. Stacks are proved in both.
[[nodiscard]] const std::vector<SmallRun>& small_runs();

/// What the user gives to `strata plugins check`.
struct ConformanceSettings {
  std::filesystem::path file;
  /// Folders with the plugins around the checked one.
  std::vector<std::filesystem::path> places;
  /// Numbers of the checks to run. Empty: all that apply.
  std::vector<std::string> only = {};
  /// Arguments of --set. "strategy.KEY" and "library.KEY" stand for the table of the checked plugin, and "dataset.KEY"
  /// for "data.KEY".
  std::vector<std::string> overrides = {};
  /// The TOML file of the run in which the plugin is checked. Empty: small_runs().
  std::string configuration = {};
  std::int64_t seed = 1;
  /// Largest relative difference of a stack from one rank in f64.
  double tolerance = kExact;
};

/// A run in which stacks are proved.
struct CheckedRun {
  /// The beginning of what messages say about a stack. Empty for the first run.
  std::string where;
  RunConfiguration configuration;
};

/// The plugin under test, in the process of one check.
class Subject {
 public:
  explicit Subject(ConformanceSettings settings);

  [[nodiscard]] const PluginFile& file() const { return plugins_.files().front(); }
  [[nodiscard]] PluginKind kind() const { return file().description->kind; }
  [[nodiscard]] const std::string& name() const { return file().description->name; }
  [[nodiscard]] PluginOrigin origin() const;
  [[nodiscard]] PluginRegistry& plugins() { return plugins_; }
  [[nodiscard]] std::uint64_t seed() const { return static_cast<std::uint64_t>(settings_.seed); }
  /// Proves stacks of the checked plugin and those around it, within the tolerance of the settings.
  [[nodiscard]] StackProver prover(int most_steps = kAllSteps) {
    return StackProver(plugins_, most_steps, settings_.tolerance);
  }
  [[nodiscard]] bool has_configuration() const { return !settings_.configuration.empty(); }

  /// Loads the plugin. \throws ConfigurationError if that is impossible.
  [[nodiscard]] const PluginFactory& factory() { return plugins_.load(kind(), name()); }
  template <class Factory>
  [[nodiscard]] const Factory& factory() {
    return plugins_.load<Factory>(name());
  }

  /// The run in which the plugin is checked. It has no strategies besides the checked one.
  [[nodiscard]] const RunConfiguration& configuration();
  /// The runs in which stacks of the plugin are proved: that of configuration(), and unless the user chose the model,
  /// one of a model that is no GPT.
  [[nodiscard]] std::vector<CheckedRun> runs();
  /// The section of the plugin in a configuration that configuration() returned.
  [[nodiscard]] PluginSection& section(RunConfiguration& configuration) const;
  /// The options of the plugin in configuration(). \throws CheckSkipped if a required one is missing.
  [[nodiscard]] Options options();
  /// The same, except that a model has the sizes of its defaults. Those of configuration() are small.
  [[nodiscard]] Options options_in_full();
  /// True if the user fixed an option of the plugin, so that checks do not vary it.
  [[nodiscard]] bool is_fixed(const std::string& option);

 private:
  [[nodiscard]] RunConfiguration parse(const std::string& small_run) const;
  /// The run with the checked strategy, or without any.
  [[nodiscard]] RunConfiguration parse_alone(const std::string& small_run);
  void fill_required(RunConfiguration& configuration);
  void shrink_model(RunConfiguration& configuration);

  ConformanceSettings settings_;
  PluginRegistry plugins_;
  std::optional<RunConfiguration> configuration_;
  std::map<std::string, OptionValue> given_options_;
  std::set<std::string> fixed_;
};

/// The section of the configuration that selects a plugin of a kind: "strategy", "data", ….
[[nodiscard]] std::string section_name(PluginKind kind);

/// An option of a strategy table with some of its values.
struct OptionVariants {
  std::string name;
  std::vector<OptionValue> values;
};

/// The options with few values: choices, true and false, and integers in a range of at most four. Each with the values
/// other than the present one.
[[nodiscard]] std::vector<OptionVariants> variants_of(const OptionSchema& schema, const Options& present);

/// The installed strategies, each as a table on two ranks with the defaults of its other options. Leaves out those that
/// have other required options, and `except`.
[[nodiscard]] std::vector<PluginSection> installed_strategies(PluginRegistry& plugins, const std::string& except = "");

/// Renumbers the tables of strategies, after some were added or removed.
void number_strategies(RunConfiguration& configuration);

/// Counts stacks that hold and stacks that are refused, and fails at the first that does neither.
class ProvedStacks {
 public:
  explicit ProvedStacks(const Subject& subject) : has_configuration_(subject.has_configuration()) {}
  /// `description`: the stack in messages, such as "outside of 'tensor'". \throws CheckFailed if the proof fails.
  void add(const std::string& description, const StackProof& proof);
  /// What was proved, such as "9 stacks hold, 2 are refused: 'zero' (…)". \throws CheckFailed if no stack holds,
  /// although some were proved. \throws CheckSkipped if there was none.
  [[nodiscard]] std::string summary() const;

 private:
  bool has_configuration_;
  int held_ = 0;
  std::vector<std::string> refused_;
  std::vector<std::string> amplified_;
};

/// The lines as one text. Long lists are cut.
[[nodiscard]] std::string joined_lines(const std::vector<std::string>& lines);

/// Most steps of a proof of several stacks. Work that is done less often is left out.
inline constexpr int kMostStepsOfMany = 8;

/// Proves the run of the subject with each installed strategy alone. `variants`: also with integers of small ranges,
/// such as the stages of `zero`. \return the summary.
[[nodiscard]] std::string prove_with_every_strategy(Subject& subject, bool variants);

/// A folder for the files of one check, removed at the end.
class TemporaryFolder {
 public:
  /// \throws RuntimeError if it cannot be made.
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "strata-check-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw RuntimeError("'" + name + "': the folder cannot be made");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace strata::host
