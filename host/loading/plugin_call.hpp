#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/internal/hook_scope.hpp"
#include "strata/plugin.hpp"

namespace strata::host {

/// The identity of a plugin of a run, for errors.
struct PluginOrigin {
  PluginKind kind = PluginKind::strategy;
  /// Index among the [[strategy]] or [[library]] tables of the configuration; -1 for other kinds.
  int table = -1;
  /// Name in messages, such as "strategy 1 'ddp'".
  std::string label;
  /// The label, for HookScope.
  LastingText lasting = LastingText(label);
};

/// The origin of a plugin outside of a configuration: "device 'cpu'".
[[nodiscard]] inline PluginOrigin origin_of(PluginKind kind, const std::string& name) {
  return {kind, -1, std::string(to_string(kind)) + " '" + name + "'"};
}

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

/// Makes the message of a defect or a failure during a hook: "device 'cpu': hook 'allocate': …". A message that begins
/// with the plugin's name stays.
[[nodiscard]] std::string in_hook(const PluginOrigin& origin, const char* hook, const std::string& message);

/// The message for the exception being handled, which a hook threw. Call it only in a catch block.
[[nodiscard]] std::string hook_failure(const char* hook);

/// Calls a hook of a plugin and translates its exceptions, so that every error names the plugin:
/// - a ConfigurationError becomes a PluginError, which is one too;
/// - a VerificationError stays one;
/// - a RuntimeError stays one, since the machine is at fault. An AbortedError passes unchanged: it names the rank that
///   failed;
/// - anything else becomes a PluginError.
template <class Call>
auto call_plugin(const PluginOrigin& origin, const char* hook, Call&& call) -> decltype(call()) {
  const HookScope scope(origin.lasting, hook);
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
    throw VerificationError(in_hook(origin, hook, current_exception_text()));
  } catch (const RuntimeError&) {
    throw RuntimeError(in_hook(origin, hook, current_exception_text()));
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

/// Destroys an object of a plugin. Its destructor is a hook too.
class PluginDeleter {
 public:
  explicit PluginDeleter(const PluginOrigin& origin) : plugin_(origin.lasting) {}
  template <class Object>
  void operator()(Object* object) const {
    const HookScope scope(plugin_, "destructor");
    delete object;
  }

 private:
  LastingText plugin_;
};

/// The object of a plugin, which may be null, with a destructor that names the plugin.
template <class Object>
std::shared_ptr<Object> owned_by_plugin(const PluginOrigin& origin, std::unique_ptr<Object> object) {
  if (object == nullptr) return nullptr;
  return {object.release(), PluginDeleter(origin)};
}

/// Calls a hook that makes an object during the run, like run_plugin(). \throws RuntimeError also if it returns null.
template <class Call>
auto make_by_plugin(const PluginOrigin& origin, const char* hook, const Call& call) {
  return owned_by_plugin(origin, run_plugin(origin, hook, [&] {
                           auto made = call();
                           if (made == nullptr) throw RuntimeError("returned nothing (a null pointer)");
                           return made;
                         }));
}

/// Calls a hook that makes an object for the run from what `callback` does, which it calls, like run_plugin(). What the
/// callback throws passes unchanged: it is not the hook's fault. \throws RuntimeError also if the hook returns null.
template <class Call>
auto run_plugin_around(const PluginOrigin& origin, const char* hook, const std::function<void()>& callback,
                       const Call& call) {
  std::exception_ptr failure;
  const std::function<void()> noted = [&] {
    try {
      callback();
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
  };
  try {
    return make_by_plugin(origin, hook, [&] { return call(noted); });
  } catch (...) {
    if (failure) std::rethrow_exception(failure);
    throw;
  }
}

/// The options that a plugin declares.
[[nodiscard]] const OptionSchema& declared_options(const PluginOrigin& origin, const PluginFactory& factory);

/// Calls a hook that creates an object, like call_plugin(). \throws PluginError also if the hook returns null.
template <class Call>
auto create_by_plugin(const PluginOrigin& origin, const char* hook, Call&& call) {
  auto made = owned_by_plugin(origin, call_plugin(origin, hook, std::forward<Call>(call)));
  if (made == nullptr) {
    throw PluginError(origin, hook, "", "hook '" + std::string(hook) + "' returned nothing (a null pointer)");
  }
  return made;
}

/// Finds hooks of plugins that do not end: those in which a thread has neither begun nor ended a hook for a time.
class HookWatch {
 public:
  /// Starts a thread. `limit`: in seconds; 0 finds none. `say` gets one line for all threads in the same hook, after
  /// the limit, twice the limit, four times, and so on.
  HookWatch(double limit, std::function<void(const std::string&)> say);
  ~HookWatch();
  HookWatch(const HookWatch&) = delete;
  HookWatch& operator=(const HookWatch&) = delete;

  void set_limit(double seconds);

 private:
  struct Seen {
    std::uint64_t moves = 0;
    double since = 0;
    /// Seconds after which the hook is named next.
    double patience = 0;
  };

  void watch();
  /// What is to be said. `now`: seconds of a clock that stands still while the process is stopped.
  std::vector<std::string> look(double now);
  /// Time between two looks.
  [[nodiscard]] double pause() const;

  std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::condition_variable changed_;
  double limit_;
  bool is_ending_ = false;
  /// By RunningHook::thread.
  std::map<std::size_t, Seen> seen_;
  std::jthread thread_;
};

/// \file
/// Wrappers of plugins' objects, so that each failure names the plugin and the function. Functions that describe an
/// object fail as call_plugin() says; functions that work during the run fail as run_plugin() says. capture() passes on
/// what its argument throws, which need not be the plugin's fault.

/// Wraps a device, its kernels and its graphs.
[[nodiscard]] std::unique_ptr<Device> guarded_device(std::shared_ptr<Device> device, PluginOrigin origin);

/// Wraps a world, its communicators and their requests.
[[nodiscard]] std::unique_ptr<World> guarded_world(std::shared_ptr<World> world, PluginOrigin origin);

}  // namespace strata::host
