#include "conformance/conformance.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "conformance/check.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// More than any check of a sound plugin takes, also with sanitizers. It ends deadlocks.
constexpr std::chrono::seconds kLimit{900};

/// The argument as a shell reads it.
std::string quoted(const std::string& argument) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) return argument;
  std::string text = "'";
  for (const char letter : argument) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::string command_of(const ConformanceSettings& settings, std::string_view number) {
  std::string command = "strata plugins check " + quoted(settings.file.string()) + " --only " + std::string(number);
  for (const std::string& each : settings.overrides) command += " --set " + quoted(each);
  if (!settings.configuration.empty()) command += " --config " + quoted(settings.configuration);
  if (settings.tolerance != kExact) command += " --tolerance " + to_string(OptionValue(settings.tolerance));
  return command + " --seed " + std::to_string(settings.seed);
}

/// Resolves the options of the run. \throws ConfigurationError if --set or --config is wrong.
void require_arguments(const ConformanceSettings& settings) {
  const CheckVerdict verdict = run_isolated(
      [&] {
        static_cast<void>(Subject(settings).options());
        return std::string();
      },
      kLimit);
  if (verdict.outcome == Outcome::failed) throw ConfigurationError(verdict.message);
}

/// Refuses numbers that no check for this plugin has.
void require_numbers(const std::vector<std::string>& only, const std::optional<PluginDescription>& plugin) {
  std::string accepted;
  for (const Check& check : all_checks()) {
    if (plugin && !check.applies_to(plugin->kind)) continue;
    accepted += (accepted.empty() ? "" : ", ") + std::string(check.number);
  }
  for (const std::string& number : only) {
    const bool is_known = std::ranges::any_of(all_checks(), [&](const Check& check) {
      return check.number == number && (!plugin || check.applies_to(plugin->kind));
    });
    if (is_known) continue;
    const std::string whom = plugin ? " of a " + std::string(to_string(plugin->kind)) : "";
    throw ConfigurationError("--only: found '" + number + "'; accepted: the checks" + whom + ": " + accepted);
  }
}

/// Runs the checks one after another.
class CheckRun {
 public:
  CheckRun(const ConformanceSettings& settings, const CheckObserver& observer, ConformanceReport& report)
      : settings_(settings), observer_(observer), report_(report) {}

  void run(const Check& check) {
    const bool is_wanted = settings_.only.empty() || contains(settings_.only, check.number);
    if (!is_wanted && !check.is_gate) return;
    CheckResult result{.number = std::string(check.number),
                       .promise = std::string(check.promise),
                       .loss = std::string(check.loss),
                       .message = {},
                       .command = command_of(settings_, check.number)};
    if (!closed_by_.empty()) {
      result.message = "it needs what " + closed_by_ + " checks, which failed";
    } else {
      // The gates are passed, so an error of the options is the user's.
      if (!check.is_gate && !std::exchange(are_arguments_checked_, true)) require_arguments(settings_);
      const CheckVerdict verdict = run_isolated(
          [&] {
            Subject subject(settings_);
            return check.run(subject);
          },
          kLimit);
      result.outcome = verdict.outcome;
      result.message = verdict.message;
      if (check.is_gate && verdict.outcome == Outcome::failed) closed_by_ = check.number;
    }
    // A gate that no one asked for is reported if it explains why others were skipped.
    if (!is_wanted && result.outcome != Outcome::failed) return;
    if (observer_) observer_(result);
    report_.checks.push_back(std::move(result));
  }

 private:
  const ConformanceSettings& settings_;
  const CheckObserver& observer_;
  ConformanceReport& report_;
  /// The gate that failed.
  std::string closed_by_;
  bool are_arguments_checked_ = false;
};

/// The kinds of plugins that some checks are for. Empty: every kind.
struct Group {
  std::vector<PluginKind> kinds;
  std::vector<Check> (*checks)();
};

}  // namespace

std::size_t ConformanceReport::count(Outcome outcome) const {
  return static_cast<std::size_t>(std::ranges::count(checks, outcome, &CheckResult::outcome));
}

ConformanceReport check_conformance(const ConformanceSettings& settings, const CheckObserver& observer) {
  if (!std::filesystem::exists(settings.file)) {
    throw ConfigurationError("'" + settings.file.string() + "': there is no such file");
  }
  if (!settings.configuration.empty() && !std::filesystem::exists(settings.configuration)) {
    throw ConfigurationError("--config: '" + settings.configuration + "': there is no such file");
  }
  const PluginFile file = inspect_plugin_file(settings.file);
  require_numbers(settings.only, file.description);
  ConformanceReport report;
  report.file = settings.file.string();
  if (file.description) {
    report.kind = to_string(file.description->kind);
    report.name = file.description->name;
    report.version = file.description->version;
  }
  CheckRun run(settings, observer, report);
  for (const Check& check : all_checks()) {
    const bool applies = file.description ? check.applies_to(file.description->kind) : check.kinds.empty();
    if (applies) run.run(check);
  }
  return report;
}

bool Check::applies_to(PluginKind kind) const { return kinds.empty() || contains(kinds, kind); }

const std::vector<Check>& all_checks() {
  using enum PluginKind;
  static const std::vector<Check> kChecks = [] {
    std::vector<Check> checks;
    for (const Group& group : {Group{{}, plugin_checks},
                               {{}, option_checks},
                               {{}, op_checks},
                               {{strategy}, strategy_checks},
                               {{model}, model_checks},
                               {{optimizer}, optimizer_checks},
                               {{dataset}, dataset_checks},
                               {{communicator}, communicator_checks},
                               {{device}, device_checks},
                               // The kinds whose objects a run trains with.
                               {{strategy, model, optimizer, device, communicator}, determinism_checks}}) {
      for (Check check : group.checks()) {
        check.kinds = group.kinds;
        checks.push_back(std::move(check));
      }
    }
    return checks;
  }();
  return kChecks;
}

}  // namespace strata::host
