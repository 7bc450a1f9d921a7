#pragma once

#include <string>

namespace strata::host {

/// Notes that this thread runs a hook of a plugin, as long as it lives. If the program dies meanwhile, a signal handler
/// can say who is at fault. The notes are process-wide, because a signal handler reaches nothing else.
class HookScope {
 public:
  /// `plugin`: its name in messages, such as "strategy 1 'ddp'". The thread also gets a stack for signal handlers, so
  /// that endless recursion can be reported.
  HookScope(const std::string& plugin, const char* hook);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  int slot_;
  int outer_;
};

/// Calls `write` with the hook that this thread runs, or else with each hook that another thread runs: a thread that a
/// plugin started is in no hook itself. A text is such as "strategy 1 'ddp': hook 'rules'". Async-signal-safe.
void visit_running_hooks(void (*write)(const char* text));

/// True if this thread runs a hook. Async-signal-safe.
[[nodiscard]] bool runs_hook();

}  // namespace strata::host
