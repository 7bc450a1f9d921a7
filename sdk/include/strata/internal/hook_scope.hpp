#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/export.hpp"

namespace strata {

/// A text that stays until the process ends, so that a signal handler and other threads may read it. Equal texts are
/// kept once.
class STRATA_API LastingText {
 public:
  explicit LastingText(const std::string& text);
  [[nodiscard]] const char* get() const { return text_; }

 private:
  const char* text_;
};

/// Notes that this thread runs a hook of a plugin, as long as it lives. If the program dies or hangs meanwhile, the
/// host can say who is at fault. Scopes nest: the innermost one counts. The host opens them. A plugin need not, except
/// around code of other plugins that it calls from a thread of its own.
class STRATA_API HookScope {
 public:
  /// `plugin`: its name in messages, such as "strategy 1 'ddp'". `hook`: a literal. The thread's first scope gives it a
  /// stack for signal handlers, so that endless recursion can be reported.
  HookScope(LastingText plugin, const char* hook);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  const char* outer_plugin_;
  const char* outer_hook_;
};

/// Calls `write` with the hook that this thread runs, or else with each hook that another thread runs: a thread that a
/// plugin started is in no hook itself. Async-signal-safe.
STRATA_API void visit_running_hooks(void (*write)(const char* plugin, const char* hook));

/// True if this thread runs a hook. Async-signal-safe.
[[nodiscard]] STRATA_API bool runs_hook();

/// The innermost hook of a thread.
struct RunningHook {
  /// A number that no other running thread has.
  std::size_t thread = 0;
  const char* plugin = nullptr;
  const char* hook = nullptr;
  /// Changes whenever the thread begins or ends a hook.
  std::uint64_t moves = 0;
};

/// The hooks of all threads, at most 256 of them.
[[nodiscard]] STRATA_API std::vector<RunningHook> running_hooks();

}  // namespace strata
