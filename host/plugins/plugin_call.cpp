#include "plugins/plugin_call.hpp"

namespace strata::host {

PluginError refusal_of(const PluginOrigin& origin, const char* hook, const std::string& option,
                       const std::string& message) {
  const std::string name = origin.label + " ";
  // "library 1 'extras' registers an op without a definition": the message goes on after the name.
  if (message.starts_with(name)) return {origin, "", option, message.substr(name.size())};
  return {origin, hook, option, message};
}

VerificationError defect_of(const PluginOrigin& origin, const std::string& message) {
  if (message.starts_with(origin.label)) return VerificationError(message);
  return VerificationError(origin.label + ": " + message);
}

RuntimeError failure_of(const PluginOrigin& origin, const char* hook, const std::string& message) {
  if (message.starts_with(origin.label)) return RuntimeError(message);
  return RuntimeError(origin.label + ": hook '" + hook + "': " + message);
}

std::string hook_failure(const char* hook) {
  return "hook '" + std::string(hook) + "' threw " + current_exception_text();
}

}  // namespace strata::host
