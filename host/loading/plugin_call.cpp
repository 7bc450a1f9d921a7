#include "loading/plugin_call.hpp"

namespace strata::host {

PluginError refusal_of(const PluginOrigin& origin, const char* hook, const std::string& option,
                       const std::string& message) {
  const std::string name = origin.label + " ";
  // "library 1 'extras' registers an op without a definition": the message goes on after the name.
  if (message.starts_with(name)) return {origin, "", option, message.substr(name.size())};
  return {origin, hook, option, message};
}

std::string in_hook(const PluginOrigin& origin, const char* hook, const std::string& message) {
  return message.starts_with(origin.label) ? message : origin.label + ": hook '" + hook + "': " + message;
}

const OptionSchema& declared_options(const PluginOrigin& origin, const PluginFactory& factory) {
  return call_plugin(origin, "options", [&]() -> const OptionSchema& { return factory.options(); });
}

std::string hook_failure(const char* hook) {
  return "hook '" + std::string(hook) + "' threw " + current_exception_text();
}

}  // namespace strata::host
