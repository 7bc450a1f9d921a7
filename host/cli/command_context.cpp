#include "cli/command_context.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>
#include <system_error>

#include "files/json.hpp"

namespace strata::host {
namespace {

/// Seconds after which a hook that does not end is named, until a configuration gives run.watchdog.
constexpr double kHookLimit = 60;

}  // namespace

PluginRegistry& CommandContext::plugins() {
  if (!plugins_) {
    plugins_ = std::make_unique<PluginRegistry>(plugin_search_places());
    plugins_->watch_hooks(kHookLimit, [this](const std::string& message) { log.warning(message); });
    warn(plugin_warnings(*plugins_));
  }
  return *plugins_;
}

void CommandContext::warn(const std::vector<std::string>& warnings) {
  if (warnings.empty()) return;
  const std::size_t others = warnings.size() - 1;
  log.warning(warnings.front() + (others == 0 ? "" : fmt::format("; {} more warnings: strata plugins list", others)));
}

std::vector<std::string> plugin_path_warnings(const PluginEnvironment& environment) {
  std::vector<std::string> warnings;
  std::stringstream chosen(environment.plugin_path);
  for (std::string place; std::getline(chosen, place, ':');) {
    if (place.empty()) continue;
    std::error_code error;
    static_cast<void>(std::filesystem::directory_iterator(place, error));
    if (!error) continue;
    const std::string warning = "STRATA_PLUGIN_PATH: the folder '" + std::filesystem::absolute(place).string() +
                                "' cannot be read: " + error.message();
    if (!contains(warnings, warning)) warnings.push_back(warning);
  }
  return warnings;
}

std::vector<std::string> plugin_warnings(const PluginRegistry& registry) {
  std::vector<std::string> warnings = plugin_path_warnings(plugin_environment());
  const std::vector<std::string> of_files = registry.warnings();
  warnings.insert(warnings.end(), of_files.begin(), of_files.end());
  return warnings;
}

int refuse_run(CommandContext& context, bool json, const std::string& reason, int exit_code) {
  if (json) {
    write_json(context.out, {{"ok", false}, {"error", reason}});
  } else {
    print_error(context.messages, reason);
  }
  return exit_code;
}

}  // namespace strata::host
