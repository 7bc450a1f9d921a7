#include "compiler/placement/storage.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace strata::host {
namespace {

class StorageResolver {
 public:
  StorageResolver(const Graph& graph, const LayoutRules& rules, const std::vector<NamedStrategy>& strategies)
      : graph_(graph), rules_(rules), strategies_(strategies) {
    for (const Node& node : graph.nodes()) {
      for (const Value& operand : node.operands) {
        if (node.phase == Phase::forward) first_block_.try_emplace(operand, node.block);
      }
    }
  }

  [[nodiscard]] ParameterStorage resolve(const Parameter& parameter) const {
    const TensorType& type = graph_.type(parameter.value);
    const auto block = first_block_.find(parameter.value);
    const ParameterDescription description{parameter.name, type.dims, element_count(graph_.shape(parameter.value)),
                                           type.dtype, block == first_block_.end() ? 0 : block->second};
    const auto claim = find_claim(strategies_, "the storage of parameter '" + parameter.name + "'",
                                  [&](const Strategy& strategy) { return strategy.storage(description); });
    if (!claim) return {};
    ParameterStorage storage = claim->decision;
    require_possible(storage, claim->by->name);
    const AxisSet sharding = axes_of(rules_.canonical(type.dims));
    for (auto* axes : {&storage.axes, &storage.secondary_axes}) {
      std::erase_if(*axes, [&](const Axis& axis) { return rules_.mesh().size(axis) == 1 || sharding.contains(axis); });
      std::sort(axes->begin(), axes->end(),
                [&](const Axis& a, const Axis& b) { return rules_.mesh().order(a) < rules_.mesh().order(b); });
    }
    if (storage.secondary_axes == storage.axes) storage.secondary_axes.clear();
    if (storage.axes.empty()) {
      // Values outside of the device are brought there for each block, also where a single rank has them whole.
      if (storage.values_place == MemoryPlace::device) storage.sharding = Sharding::nothing;
      storage.single_writer = false;
    }
    return storage;
  }

 private:
  static AxisSet axes_of(const Layout& layout) {
    AxisSet all;
    for (const auto& axes : layout) all.insert(axes.begin(), axes.end());
    return all;
  }

  void require_possible(const ParameterStorage& storage, const std::string& by) const {
    for (const Axis& axis : storage.axes) {
      if (!rules_.mesh().has(axis)) {
        throw ConfigurationError(by + " stores parameters over mesh axis '" + axis + "', which no strategy adds");
      }
    }
    const auto stored = [&](const Axis& axis) {
      return std::find(storage.axes.begin(), storage.axes.end(), axis) != storage.axes.end();
    };
    if (!std::all_of(storage.secondary_axes.begin(), storage.secondary_axes.end(), stored)) {
      throw ConfigurationError(by + " keeps secondary pieces over axes that parameters are not stored over");
    }
    if (storage.single_writer && (storage.sharding != Sharding::nothing || storage.axes.size() != 1)) {
      throw ConfigurationError(by + " lets a single rank update parameters that it also shards");
    }
    if (storage.values_place != MemoryPlace::device && storage.sharding != Sharding::values) {
      throw ConfigurationError(by + " keeps values in " + std::string(to_string(storage.values_place)) +
                               " memory without gathering them for the blocks that need them");
    }
  }

  const Graph& graph_;
  const LayoutRules& rules_;
  const std::vector<NamedStrategy>& strategies_;
  std::map<Value, int> first_block_;
};

/// A rank has one file.
void require_one_directory(const std::vector<ParameterStorage>& storages) {
  const ParameterStorage* first = nullptr;
  for (const ParameterStorage& each : storages) {
    if (each.states_place != MemoryPlace::file && each.values_place != MemoryPlace::file) continue;
    if (first == nullptr) first = &each;
    if (each.directory == first->directory) continue;
    throw ConfigurationError("parameters are offloaded to files in '" + first->directory + "' and in '" +
                             each.directory + "'; it must be one directory");
  }
}

}  // namespace

std::vector<ParameterStorage> resolve_storage(const Graph& graph, const LayoutRules& rules,
                                              const std::vector<NamedStrategy>& strategies) {
  const StorageResolver resolver(graph, rules, strategies);
  std::vector<ParameterStorage> storages;
  storages.reserve(graph.parameters.size());
  for (const Parameter& parameter : graph.parameters) storages.push_back(resolver.resolve(parameter));
  const auto single = [](const ParameterStorage& storage) { return storage.single_writer; };
  if (std::any_of(storages.begin(), storages.end(), single) && !std::all_of(storages.begin(), storages.end(), single)) {
    throw ConfigurationError("some parameters are updated by a single rank, others by all; it must be all parameters");
  }
  require_one_directory(storages);
  return storages;
}

}  // namespace strata::host
