#include "strata/testing/check_op.hpp"

#include <algorithm>
#include <memory>
#include <sstream>

#include "conformance/op_examples.hpp"
#include "loading/plugin_registry.hpp"
#include "search_places.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

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

}  // namespace strata::testing
