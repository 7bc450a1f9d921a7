#pragma once

#include <memory>
#include <string>
#include <utility>

#include "plugins/hook_scope.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"
#include "strata/plugin.hpp"

namespace strata::host {

/// The identity of a plugin of a run, for errors.
struct PluginOrigin {
  PluginKind kind = PluginKind::strategy;
  /// Index among the [[strategy]] or [[library]] tables of the configuration; -1 for other kinds.
  int table = -1;
  /// Name in messages, such as "strategy 1 'ddp'".
  std::string label;
};

/// A plugin refused a request or made a mistake. The error records the plugin, the hook and the option concerned.
/// what() names the plugin.
class PluginError : public ConfigurationError {
 public:
  /// `hook`: empty if the host found the mistake; the message then continues the plugin's name, as in "decides on …".
  /// `option`: empty if the message concerns no option.
  PluginError(PluginOrigin origin, std::string hook, std::string option, const std::string& message)
      : ConfigurationError(origin.label + (hook.empty() ? " " : ": ") + (option.empty() ? "" : option + ": ") +
                           message),
        origin_(std::move(origin)),
        hook_(std::move(hook)),
        option_(std::move(option)),
        message_(message) {}

  [[nodiscard]] const PluginOrigin& origin() const { return origin_; }
  [[nodiscard]] const std::string& hook() const { return hook_; }
  [[nodiscard]] const std::string& option() const { return option_; }
  /// The message without the plugin's name and the option.
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  PluginOrigin origin_;
  std::string hook_;
  std::string option_;
  std::string message_;
};

/// Makes the error for a refusal by a hook. A message that begins with the plugin's name is not given that name again.
[[nodiscard]] PluginError refusal_of(const PluginOrigin& origin, const char* hook, const std::string& option,
                                     const std::string& message);

/// Makes the error for a defect that a hook found, with the plugin's name in front unless it is there.
[[nodiscard]] VerificationError defect_of(const PluginOrigin& origin, const std::string& message);

/// Makes the error for a failure of the machine during a hook: "device 'cpu': hook 'allocate': …". A message that
/// begins with the plugin's name is not given that name again.
[[nodiscard]] RuntimeError failure_of(const PluginOrigin& origin, const char* hook, const std::string& message);

/// The message for the exception being handled, which a hook threw. Call it only in a catch block.
[[nodiscard]] std::string hook_failure(const char* hook);

/// Calls a hook of a plugin and translates its exceptions, so that every error names the plugin:
/// - a ConfigurationError becomes a PluginError: exit code 2;
/// - a VerificationError stays one: exit code 1, but `strata check` refuses the run with 2;
/// - a RuntimeError stays one, since the machine is at fault: exit codes as before. An AbortedError passes unchanged:
/// it
///   names the rank that failed;
/// - anything else becomes a PluginError: exit code 2.
template <class Call>
auto call_plugin(const PluginOrigin& origin, const char* hook, Call&& call) -> decltype(call()) {
  const HookScope scope(origin.label, hook);
  try {
    return std::forward<Call>(call)();
  } catch (const PluginError&) {
    throw;
  } catch (const AbortedError&) {
    throw;
  } catch (const OptionError& error) {
    throw refusal_of(origin, hook, error.option(), current_exception_text());
  } catch (const ConfigurationError&) {
    throw refusal_of(origin, hook, "", current_exception_text());
  } catch (const VerificationError&) {
    throw defect_of(origin, current_exception_text());
  } catch (const RuntimeError&) {
    throw failure_of(origin, hook, current_exception_text());
  } catch (...) {
    throw PluginError(origin, hook, "", hook_failure(hook));
  }
}

/// Calls a hook that works during the run, such as Device::copy(). It translates exceptions like call_plugin(), but
/// what is no error of Strata becomes a RuntimeError: the configuration is not at fault.
template <class Call>
auto run_plugin(const PluginOrigin& origin, const char* hook, Call&& call) -> decltype(call()) {
  return call_plugin(origin, hook, [&]() -> decltype(call()) {
    try {
      return std::forward<Call>(call)();
    } catch (const Error&) {
      throw;
    } catch (...) {
      throw RuntimeError(origin.label + ": " + hook_failure(hook));
    }
  });
}

/// Calls a hook that creates an object, like call_plugin(). \throws PluginError also if the hook returns null.
template <class Call>
auto create_by_plugin(const PluginOrigin& origin, const char* hook, Call&& call) -> decltype(call()) {
  auto made = call_plugin(origin, hook, std::forward<Call>(call));
  if (made == nullptr) {
    throw PluginError(origin, hook, "", "hook '" + std::string(hook) + "' returned nothing (a null pointer)");
  }
  return made;
}

}  // namespace strata::host
