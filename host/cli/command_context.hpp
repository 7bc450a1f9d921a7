#pragma once

#include <functional>
#include <memory>
#include <ostream>

#include "cli/log.hpp"
#include "plugins/plugin_registry.hpp"

namespace strata::host {

/// What a command gets from the frame.
class CommandContext {
 public:
  CommandContext(std::ostream& results, std::ostream& messages) : out(results), messages(messages), log(messages) {}

  /// Results go here (standard output).
  std::ostream& out;
  /// Where the log goes (standard error), for what is not a log line: a progress line on a terminal.
  std::ostream& messages;
  Log log;
  /// Set by the chosen command's callback; run when the whole command line is parsed. \return the exit code.
  std::function<int()> action;

  /// The plugins of this process, looked for when first asked.
  PluginRegistry& plugins() {
    if (!plugins_) plugins_ = std::make_unique<PluginRegistry>(plugin_search_places());
    return *plugins_;
  }

 private:
  std::unique_ptr<PluginRegistry> plugins_;
};

}  // namespace strata::host
