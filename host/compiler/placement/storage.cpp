#include "compiler/placement/storage.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "compiler/graph/parameter_descriptions.hpp"

namespace strata::host {
namespace {

/// More blocks than any model has.
constexpr int kMostPrefetch = 1 << 20;

class StorageResolver {
 public:
  StorageResolver(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules, const Stack& stack)
      : graph_(graph),
        describe_(graph, registry),
        rules_(rules),
        mesh_(stack.mesh),
        strategies_(stack.strategies),
        unsynchronized_(stack.unsynchronized),
        reduced_(stack.reduced) {}

  [[nodiscard]] ParameterStorage resolve(const Parameter& parameter) {
    // Every rank that reads a constant computes it.
    if (parameter.role == ParameterRole::constant) return {};
    const TensorType& type = graph_.type(parameter.value);
    const ParameterDescription description = describe_(parameter);
    const auto claim = find_claim(strategies_, "storage", "the storage of parameter '" + parameter.name + "'",
                                  [&](const NamedStrategy& each) { return each.strategy->storage(description); });
    if (!claim) return {};
    ParameterStorage storage = *claim->decision;
    require_possible(storage, *claim->by);
    if (parameter.role == ParameterRole::frozen) keep_values_only(storage);
    const AxisSet sharding = axes_of(rules_.canonical(type.dims));
    for (auto* axes : {&storage.axes, &storage.secondary_axes}) {
      std::erase_if(*axes, [&](const Axis& axis) { return mesh_.size(axis) == 1 || sharding.contains(axis); });
      std::sort(axes->begin(), axes->end(),
                [&](const Axis& a, const Axis& b) { return mesh_.order(a) < mesh_.order(b); });
    }
    if (storage.secondary_axes == storage.axes) storage.secondary_axes.clear();
    if (storage.axes.empty()) {
      // Offloaded values are transferred to the device for each block, even if a single rank holds them whole.
      if (storage.values_place == MemoryPlace::device) storage.sharding = Sharding::nothing;
      storage.single_writer = false;
    }
    if (storage != ParameterStorage{}) decided_by_.insert(claim->by->name);
    return storage;
  }

  [[nodiscard]] const std::set<std::string>& decided_by() const { return decided_by_; }

 private:
  static AxisSet axes_of(const Layout& layout) {
    AxisSet all;
    for (const auto& axes : layout) all.insert(axes.begin(), axes.end());
    return all;
  }

  /// A frozen parameter has no gradient and no states to shard.
  static void keep_values_only(ParameterStorage& storage) {
    if (storage.sharding != Sharding::values) storage = {};
    storage.states_place = MemoryPlace::device;
  }

  void require_possible(const ParameterStorage& storage, const NamedStrategy& by) const {
    for (const auto* axes : {&storage.axes, &storage.secondary_axes}) {
      std::set<Axis> seen;
      for (const Axis& axis : *axes) {
        if (!seen.insert(axis).second) throw by.error("stores parameters over mesh axis '" + axis + "' twice");
      }
    }
    for (const Axis& axis : storage.axes) {
      if (!rules_.mesh().has(axis)) {
        throw by.error("stores parameters over mesh axis '" + axis + "', which no strategy adds");
      }
      if (unsynchronized_.contains(axis)) {
        throw by.error("stores parameters over mesh axis '" + axis + "', along which replicas train apart");
      }
      if (std::find(reduced_.begin(), reduced_.end(), axis) != reduced_.end()) {
        throw by.error("stores parameters over mesh axis '" + axis +
                       "', over which a strategy reduces gradients itself");
      }
    }
    if (storage.prefetch < 0 || storage.prefetch > kMostPrefetch) {
      throw by.error("prefetches " + std::to_string(storage.prefetch) + " blocks ahead; accepted: 0 to " +
                     std::to_string(kMostPrefetch));
    }
    const auto stored = [&](const Axis& axis) {
      return std::find(storage.axes.begin(), storage.axes.end(), axis) != storage.axes.end();
    };
    if (!std::all_of(storage.secondary_axes.begin(), storage.secondary_axes.end(), stored)) {
      throw by.error("keeps secondary pieces over axes that parameters are not stored over");
    }
    if (storage.single_writer && (storage.sharding != Sharding::nothing || storage.axes.size() != 1)) {
      throw by.error("lets a single rank update parameters that it also shards");
    }
    if (storage.values_place != MemoryPlace::device && storage.sharding != Sharding::values) {
      throw by.error("keeps values in " + std::string(to_string(storage.values_place)) +
                     " memory without gathering them for the blocks that need them");
    }
  }

  const Graph& graph_;
  ParameterDescriptions describe_;
  const LayoutRules& rules_;
  const Mesh& mesh_;
  const std::vector<NamedStrategy>& strategies_;
  const AxisSet& unsynchronized_;
  const std::vector<Axis>& reduced_;
  std::set<std::string> decided_by_;
};

/// If a single rank updates one trained parameter, it must update all of them.
void require_one_writer(const Graph& graph, const std::vector<ParameterStorage>& storages) {
  std::size_t trained = 0;
  std::size_t single = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (graph.parameters[i].role != ParameterRole::trained) continue;
    ++trained;
    if (storages[i].single_writer) ++single;
  }
  if (single == 0 || single == trained) return;
  throw ConfigurationError(
      "some parameters are updated by a single rank, others by all; all parameters must be updated in one way");
}

/// Checks that strategies name the same directory, because a rank has only one file.
void require_one_directory(const std::vector<ParameterStorage>& storages) {
  const ParameterStorage* first = nullptr;
  for (const ParameterStorage& each : storages) {
    if (each.states_place != MemoryPlace::file && each.values_place != MemoryPlace::file) continue;
    if (first == nullptr) first = &each;
    if (each.directory == first->directory) continue;
    throw ConfigurationError("parameters are offloaded to files in '" + first->directory + "' and in '" +
                             each.directory + "'; all must go to one directory");
  }
}

}  // namespace

ResolvedStorage resolve_storage(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules,
                                const Stack& stack) {
  StorageResolver resolver(graph, registry, rules, stack);
  ResolvedStorage resolved;
  for (const Parameter& parameter : graph.parameters) resolved.storages.push_back(resolver.resolve(parameter));
  require_one_writer(graph, resolved.storages);
  require_one_directory(resolved.storages);
  resolved.decided_by = resolver.decided_by();
  return resolved;
}

}  // namespace strata::host
