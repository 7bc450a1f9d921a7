#include "loading/model_strategies.hpp"

#include <utility>
#include <vector>

#include "loading/plugin_call.hpp"
#include "loading/resolved_plugins.hpp"

namespace strata::host {

void keep_model_strategies(RunConfiguration& configuration, PluginRegistry& registry) {
  std::vector<PluginSection> kept;
  for (std::size_t i = 0; i < configuration.strategies.size(); ++i) {
    const PluginSection& section = configuration.strategies[i];
    const PluginOrigin origin{PluginKind::strategy, static_cast<int>(i), "strategy '" + section.plugin + "'"};
    const bool changes_model = with_places(configuration, [&] {
      const auto& factory = registry.load<StrategyFactory>(section.plugin);
      return call_plugin(origin, "changes_model", [&] { return factory.changes_model(); });
    });
    if (changes_model) kept.push_back(section);
  }
  configuration.strategies = std::move(kept);
}

}  // namespace strata::host
