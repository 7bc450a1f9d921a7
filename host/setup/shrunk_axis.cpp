#include "setup/shrunk_axis.hpp"

#include <algorithm>
#include <vector>

#include "setup/inspection.hpp"
#include "setup/ranks_per_process.hpp"

namespace strata::host {
namespace {

constexpr const char* kSizeOption = "size";

/// The position of the strategy that adds the axis. \throws ConfigurationError if there is none.
std::size_t strategy_of_axis(const RunSetup& setup) {
  const std::string& axis = setup.configuration.run.shrink.axis;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < setup.stack.axes.size(); ++i) {
    for (const MeshAxis& each : setup.stack.axes[i]) {
      if (each.name == axis) return i;
      names.push_back(each.name);
    }
  }
  throw setup.configuration.error("run.shrink.axis",
                                  "found \"" + axis + "\"; accepted: an axis of the mesh (" +
                                      (names.empty() ? "the configuration has none" : join(names, ", ")) + ")");
}

/// The configuration with another size of the axis.
RunConfiguration with_size(const RunSetup& setup, std::size_t strategy, std::int64_t size) {
  RunConfiguration configuration = setup.configuration;
  const std::size_t table = static_cast<std::size_t>(setup.stack.strategies[strategy].table);
  configuration.strategies[table].options[kSizeOption] = size;
  return configuration;
}

/// True if `strata check` accepts the run.
bool passes_check(const RunConfiguration& configuration, PluginRegistry& registry) {
  try {
    return !find_fault(inspect(configuration, registry));
  } catch (const Error&) {
    return false;
  }
}

/// True if the plugins accept the configuration, and its batch divides.
bool can_be_prepared(const RunConfiguration& configuration, PluginRegistry& registry) {
  try {
    static_cast<void>(prepare(configuration, registry));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_shrink(const RunSetup& setup) {
  const ShrinkSection& shrink = setup.configuration.run.shrink;
  if (shrink.axis.empty()) return;
  const NamedStrategy& strategy = setup.stack.strategies[strategy_of_axis(setup)];
  const int size = setup.stack.mesh.size(shrink.axis);
  const auto& options = setup.configuration.strategies[static_cast<std::size_t>(strategy.table)].options;
  const auto option = options.find(kSizeOption);
  if (option == options.end() || option->second != OptionValue(std::int64_t{size})) {
    throw setup.configuration.error("run.shrink.axis", "found \"" + shrink.axis + "\" of " + strategy.name +
                                                           ", whose option `size` does not give its ranks; accepted: "
                                                           "an axis that has `size` ranks");
  }
  if (shrink.min > size) {
    throw setup.configuration.error("run.shrink.min", "found " + std::to_string(shrink.min) + "; accepted: 1 to " +
                                                          std::to_string(size) + ", the size of the axis \"" +
                                                          shrink.axis + "\"");
  }
}

std::optional<ShrunkAxis> find_shrunk_axis(const RunSetup& setup, int slots, PluginRegistry& registry) {
  const ShrinkSection& shrink = setup.configuration.run.shrink;
  if (shrink.axis.empty()) return std::nullopt;
  const std::size_t strategy = strategy_of_axis(setup);
  const int table = setup.stack.strategies[strategy].table;
  const int whole = setup.stack.mesh.size(shrink.axis);
  const int ranks_of_one = setup.stack.mesh.rank_count() / whole;
  const int per_process = ranks_per_process(setup.configuration, setup.stack.mesh.rank_count());
  // A launcher's machine may lack the run's device. Then the ranks make the check that needs one.
  const bool checks_all = passes_check(setup.configuration, registry);
  const std::int64_t most = std::min<std::int64_t>(slots / ranks_of_one, whole);
  for (std::int64_t size = most; size >= shrink.min; --size) {
    const RunConfiguration configuration = with_size(setup, strategy, size);
    if (size * ranks_of_one % per_process != 0 || !can_be_prepared(configuration, registry)) continue;
    if (checks_all && !passes_check(configuration, registry)) continue;
    return ShrunkAxis{size, static_cast<int>(size) * ranks_of_one,
                      "strategy." + std::to_string(table) + "." + kSizeOption + "=" + std::to_string(size)};
  }
  return std::nullopt;
}

}  // namespace strata::host
