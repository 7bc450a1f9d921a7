#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "conformance/conformance.hpp"
#include "conformance/op_examples.hpp"
#include "loading/plugin_registry.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"
#include "strata/testing/check_op.hpp"
#include "strata/testing/check_plugin.hpp"
#include "strata/testing/verify_run.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

/// Its address is in this library.
const char kInThisLibrary = 0;

/// The folders of plugins around a checked one: those of the settings, of STRATA_PLUGIN_PATH, and of the Strata that
/// this library belongs to.
std::vector<std::filesystem::path> search_places(const PluginSettings& settings) {
  std::vector<std::filesystem::path> places = settings.plugin_folders;
  const std::vector<std::filesystem::path> of_process = host::plugin_search_places();
  places.insert(places.end(), of_process.begin(), of_process.end());
  Dl_info library{};
  if (::dladdr(&kInThisLibrary, &library) != 0 && library.dli_fname != nullptr) {
    const std::filesystem::path file = std::filesystem::weakly_canonical(library.dli_fname);
    places.push_back(file.parent_path() / "strata" / "plugins");
  }
  return places;
}

Outcome outcome_of(host::Outcome outcome) {
  switch (outcome) {
    case host::Outcome::passed:
      return Outcome::passed;
    case host::Outcome::failed:
      return Outcome::failed;
    case host::Outcome::skipped:
      break;
  }
  return Outcome::skipped;
}

/// Strata's ops and kernels and those of some plugins, with default options.
class LoadedVocabulary {
 public:
  LoadedVocabulary(const std::filesystem::path& file, const PluginSettings& settings)
      : plugins_(search_places(settings), file) {
    register_core(ops, kernels);
    const host::PluginFile& found = plugins_.files().front();
    if (!found.refusal.empty()) throw ConfigurationError(file.string() + ": refused: " + found.refusal);
    add(found.description->kind, found.description->name);
  }

  /// A device with the kernels of all.
  std::shared_ptr<Device> make_device(const std::string& name) {
    add(PluginKind::device, name);
    const DeviceFactory& factory = plugins_.load<DeviceFactory>(name);
    return factory.create(Options(factory.options(), {}), {.kernels = &kernels});
  }

  OpRegistry ops;
  KernelRegistry kernels;

 private:
  void add(PluginKind kind, const std::string& name) {
    const PluginFactory& factory = plugins_.load(kind, name);
    Registration registration(ops, kernels, std::string(to_string(kind)) + " '" + name + "'");
    factory.provide(registration, Options(factory.options(), {}));
  }

  host::PluginRegistry plugins_;
};

}  // namespace

bool PluginReport::holds() const {
  return std::none_of(checks.begin(), checks.end(),
                      [](const CheckResult& each) { return each.outcome == Outcome::failed; });
}

std::string PluginReport::text() const {
  std::string lines;
  for (const CheckResult& each : checks) {
    if (each.outcome == Outcome::passed) continue;
    const bool failed = each.outcome == Outcome::failed;
    lines += (failed ? "failed " : "skipped ") + each.number + ": " + each.promise + " " + each.message + "\n";
    if (failed) lines += "  again: " + each.command + "\n";
  }
  return lines;
}

PluginReport check_plugin(const std::filesystem::path& file, const PluginSettings& settings) {
  const host::ConformanceReport found = host::check_conformance({.file = file,
                                                                 .places = search_places(settings),
                                                                 .only = settings.only,
                                                                 .overrides = settings.overrides,
                                                                 .configuration = settings.configuration,
                                                                 .seed = settings.seed,
                                                                 .tolerance = settings.tolerance});
  PluginReport report;
  for (const host::CheckResult& each : found.checks) {
    report.checks.push_back({each.number, each.promise, outcome_of(each.outcome), each.message, each.command});
  }
  return report;
}

bool OpReport::holds() const {
  return !comparisons.empty() &&
         std::all_of(comparisons.begin(), comparisons.end(), [](const OpComparison& each) { return each.holds; });
}

std::string OpReport::text() const {
  std::ostringstream lines;
  for (const OpComparison& each : comparisons) {
    lines << (each.holds ? "ok    " : "WRONG ") << each.kind << " " << each.what << ": ";
    if (each.fault.empty()) {
      lines << each.error;
    } else {
      lines << each.fault;
    }
    lines << " (" << each.origin << ")\n";
  }
  if (comparisons.empty()) lines << "nothing was compared\n";
  return lines.str();
}

OpReport check_op(const std::filesystem::path& file, const OpExample& example, const std::string& device,
                  const PluginSettings& settings) {
  LoadedVocabulary vocabulary(file, settings);
  const auto seed = static_cast<std::uint64_t>(settings.seed);
  OpReport report;
  const std::shared_ptr<Device> compared = vocabulary.make_device(device);
  if (vocabulary.ops.get(example.op).gradient()) {
    const std::shared_ptr<Device> reference = vocabulary.make_device("reference");
    for (const auto& each : host::check_example_gradients(example, vocabulary.ops, *reference, seed)) {
      report.comparisons.push_back({"gradient", "operand " + std::to_string(each.operand) + " " + each.operand_type,
                                    each.origin, each.error, each.fault, each.holds()});
    }
  }
  for (const auto& each : host::check_example_kernels(example, vocabulary.ops, vocabulary.kernels, compared, seed)) {
    report.comparisons.push_back(
        {"kernel", each.op + " " + each.types, each.origin, each.error, each.fault, each.holds()});
  }
  return report;
}

bool RunReport::holds(double tolerance) const {
  return std::max({loss, gradient_norm, parameter, replicas}) <= tolerance;
}

std::string RunReport::text() const {
  std::ostringstream line;
  line << "relative differences from one rank: loss " << loss << ", gradient norm " << gradient_norm << ", parameter '"
       << worst_parameter << "' " << parameter << "; replicas differ by " << replicas;
  return line.str();
}

RunReport verify_run(const std::string& toml, const PluginSettings& settings) {
  host::PluginRegistry plugins(search_places(settings));
  const host::RunConfiguration run = host::parse_configuration(toml, "the test's configuration", settings.overrides);
  const host::Verification found = host::verify_stack(run, plugins, {});
  return {.loss = found.difference.loss,
          .gradient_norm = found.difference.gradient_norm,
          .parameter = found.difference.parameter,
          .worst_parameter = found.difference.worst_parameter,
          .replicas = found.stack.replica_difference};
}

}  // namespace strata::testing
