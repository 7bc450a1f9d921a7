#include "loading/installed_vocabulary.hpp"

#include "loading/plugin_call.hpp"
#include "strata/registration.hpp"

namespace strata::host {
namespace {

/// One message per kernel whose op no plugin registers. A run ignores such a kernel, because a library may serve ops of
/// plugins that the run does not use.
std::vector<std::string> kernels_without_op(const InstalledVocabulary& vocabulary) {
  std::vector<std::string> messages;
  for (const std::string& op : vocabulary.kernels.ops()) {
    if (vocabulary.ops.has(op)) continue;
    const std::string near = nearest(op, vocabulary.ops.names());
    for (const auto& kernel : vocabulary.kernels.all(op)) {
      messages.push_back(kernel->origin + ": has a kernel for op '" + op + "', which no plugin brings" +
                         (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
  }
  return messages;
}

}  // namespace

Options default_options(const OptionSchema& schema) {
  Options options;
  for (const OptionSpecification& option : schema.options()) {
    if (option.default_value) options.set(option.name, schema.checked(option, *option.default_value));
  }
  return options;
}

InstalledVocabulary installed_vocabulary(PluginRegistry& registry) {
  InstalledVocabulary vocabulary;
  register_core(vocabulary.ops, vocabulary.kernels);
  for (const PluginFile& file : registry.files()) {
    if (!file.refusal.empty()) continue;
    const auto& [kind, name] = std::pair(file.description->kind, file.description->name);
    const PluginOrigin origin{kind, -1, std::string(to_string(kind)) + " '" + name + "'"};
    try {
      const PluginFactory& factory = registry.load(kind, name);
      call_plugin(origin, "provide", [&] {
        Registration registration(vocabulary.ops, vocabulary.kernels, origin.label);
        factory.provide(registration, default_options(factory.options()));
      });
    } catch (const Error& error) {
      vocabulary.refusals.emplace_back(error.what());
    }
  }
  const std::vector<std::string> without_op = kernels_without_op(vocabulary);
  vocabulary.refusals.insert(vocabulary.refusals.end(), without_op.begin(), without_op.end());
  return vocabulary;
}

}  // namespace strata::host
