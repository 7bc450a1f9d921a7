#pragma once

#include <functional>
#include <memory>
#include <ostream>

#include "cli/log.hpp"
#include "cli/plugin_warnings.hpp"
#include "cli/safe_output.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// Seconds after which a hook that does not end is named, until a configuration gives run.watchdog.
inline constexpr double kHookLimit = 60;

/// The objects that all commands share.
class CommandContext {
 public:
  CommandContext(std::ostream& results, std::ostream& messages) : out(results), messages(messages), log(messages) {}

  /// Standard output, for results.
  SafeOutput out;
  /// Standard error, for output that is not a log line, such as the progress line on a terminal.
  std::ostream& messages;
  Log log;
  /// The selected command. Its callback sets it, and it runs when the whole command line is parsed. \return the exit
  /// code.
  std::function<int()> action;

  /// The plugins of this process. The first call searches for them.
  PluginRegistry& plugins() {
    if (!plugins_) {
      plugins_ = std::make_unique<PluginRegistry>(plugin_search_places());
      plugins_->watch_hooks(kHookLimit, [this](const std::string& message) { log.warning(message); });
      warn(plugin_warnings(*plugins_));
    }
    return *plugins_;
  }

  /// Logs one line for all warnings about plugins. `strata plugins list` shows them.
  void warn(const std::vector<std::string>& warnings) {
    if (warnings.empty()) return;
    const std::string others = std::to_string(warnings.size() - 1) + " more warnings: strata plugins list";
    log.warning(warnings.front() + (warnings.size() == 1 ? "" : "; " + others));
  }

 private:
  std::unique_ptr<PluginRegistry> plugins_;
};

}  // namespace strata::host
