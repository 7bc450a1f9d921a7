#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "files/console.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// The objects that all commands share.
class CommandContext : public Console {
 public:
  using Console::Console;

  /// The selected command. Its callback sets it, and it runs when the whole command line is parsed. \return the exit
  /// code.
  std::function<int()> action;

  /// The plugins of this process. The first call searches for them.
  PluginRegistry& plugins();

  /// Logs one line for all warnings about plugins. `strata plugins list` shows them.
  void warn(const std::vector<std::string>& warnings);

 private:
  std::unique_ptr<PluginRegistry> plugins_;
};

/// One warning for each folder of STRATA_PLUGIN_PATH that cannot be read, such as a mistyped one. Other places of
/// plugins need not exist.
[[nodiscard]] std::vector<std::string> plugin_path_warnings(const PluginEnvironment& environment);

/// The warnings of this process: those of STRATA_PLUGIN_PATH, then those of the registry.
[[nodiscard]] std::vector<std::string> plugin_warnings(const PluginRegistry& registry);

/// Says why a run cannot work, as JSON too. \return `exit_code`.
int refuse_run(CommandContext& context, bool json, const std::string& reason, int exit_code);

}  // namespace strata::host
