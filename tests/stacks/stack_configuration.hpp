#pragma once

#include <string>

#include "build_paths.hpp"
#include "config/run_configuration.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::testing {

/// The plugins of this build.
class BuiltPlugins : public host::PluginRegistry {
 public:
  BuiltPlugins() : PluginRegistry({plugin_folder()}) {}
};

/// The plugins of this build, which are looked for once.
inline host::PluginRegistry& built_plugins() {
  static BuiltPlugins plugins;
  return plugins;
}

/// A small GPT-2 with dropout, clipping and accumulation. `strategies` is appended to its configuration.
inline host::RunConfiguration small_gpt2(const std::string& strategies, int global_batch, int micro_batch) {
  const std::string text = R"(
[run]
steps = 3
[model]
plugin = "gpt2"
layers = 2
heads = 2
embed = 16
context = 8
vocab = 16
dropout = 0.1
[data]
path = "none"
[batch]
global = )" + std::to_string(global_batch) +
                           "\nmicro = " + std::to_string(micro_batch) + R"(
[optimizer]
plugin = "adamw"
lr = 1e-2
clip = 0.5
[device]
plugin = "reference"
[communicator]
plugin = "local"
)" + strategies;
  return host::parse_configuration(text, "small_gpt2.toml");
}

}  // namespace strata::testing
