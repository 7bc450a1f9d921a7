#include "compiler/placement/storage.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "compiler/optimizer_groups.hpp"
#include "compiler/placement/bucket.hpp"

namespace strata::host {
namespace {

/// More blocks than any model has.
constexpr int kMostPrefetch = 1 << 20;

class StorageResolver {
 public:
  StorageResolver(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules, const Stack& stack)
      : graph_(graph), describe_(graph, registry), rules_(rules), stack_(stack) {}

  ResolvedStorage run() {
    for (const Parameter& parameter : graph_.parameters) {
      const ParameterDescription description = describe_(parameter);
      PlacedParameter placed;
      // Every rank that reads a constant computes it.
      if (parameter.role != ParameterRole::constant) placed.storage = storage_of(parameter, description);
      for (const NamedStrategy& each : stack_.strategies) {
        placed.fragments.push_back(
            each.ask<ReplicaHooks>("fragment", [&](const ReplicaHooks& hooks) { return hooks.fragment(description); }));
        if (parameter.role != ParameterRole::trained) continue;
        placed.has_own_bucket |= each.ask<GradientHooks>(
            "wants_own_bucket", [&](const GradientHooks& hooks) { return hooks.wants_own_bucket(description); });
      }
      resolved_.parameters.push_back(std::move(placed));
    }
    require_one_writer();
    require_one_directory();
    return std::move(resolved_);
  }

 private:
  ParameterStorage storage_of(const Parameter& parameter, const ParameterDescription& description) {
    const Mesh& mesh = stack_.mesh;
    const auto claim = find_claim(stack_.strategies, "storage", "the storage of parameter '" + parameter.name + "'",
                                  [&](const NamedStrategy& each) { return each.strategy->storage(description); });
    if (!claim) return {};
    ParameterStorage storage = *claim->decision;
    require_possible(storage, *claim->claimant);
    if (parameter.role == ParameterRole::frozen) keep_values_only(storage);
    const AxisSet sharding = axes_of(rules_.canonical(graph_.type(parameter.value).dims, parameter.name));
    for (auto* axes : {&storage.axes, &storage.secondary_axes}) {
      std::erase_if(*axes, [&](const Axis& axis) { return mesh.size(axis) == 1 || sharding.contains(axis); });
      std::ranges::sort(*axes, [&](const Axis& a, const Axis& b) { return mesh.order(a) < mesh.order(b); });
    }
    if (storage.secondary_axes == storage.axes) storage.secondary_axes.clear();
    if (storage.axes.empty()) {
      // Offloaded values are transferred to the device for each block, even if a single rank holds them whole.
      if (storage.values_place == MemoryPlace::device) storage.sharding = Sharding::nothing;
      storage.single_writer = false;
    }
    if (storage != ParameterStorage{}) resolved_.decided_by.insert(claim->claimant->name);
    return storage;
  }

  /// A frozen parameter has no gradient and no states to shard.
  static void keep_values_only(ParameterStorage& storage) {
    if (storage.sharding != Sharding::values) storage = {};
    storage.states_place = MemoryPlace::device;
  }

  void require_possible(const ParameterStorage& storage, const NamedStrategy& claimant) const {
    for (const auto* axes : {&storage.axes, &storage.secondary_axes}) {
      std::set<Axis> seen;
      for (const Axis& axis : *axes) {
        if (!seen.insert(axis).second) throw claimant.error("stores parameters over mesh axis '" + axis + "' twice");
      }
    }
    for (const Axis& axis : storage.axes) {
      if (!rules_.mesh().has(axis)) {
        throw claimant.error("stores parameters over mesh axis '" + axis + "', which no strategy adds");
      }
      if (stack_.unsynchronized.contains(axis)) {
        throw claimant.error("stores parameters over mesh axis '" + axis + "', along which replicas train apart");
      }
      if (stack_.apart().contains(axis)) {
        throw claimant.error("stores parameters over mesh axis '" + axis +
                             "', over which a strategy reduces gradients itself");
      }
    }
    if (storage.prefetch < 0 || storage.prefetch > kMostPrefetch) {
      throw claimant.error("prefetches " + std::to_string(storage.prefetch) + " blocks ahead; accepted: 0 to " +
                           std::to_string(kMostPrefetch));
    }
    const auto stored = [&](const Axis& axis) { return contains(storage.axes, axis); };
    if (!std::ranges::all_of(storage.secondary_axes, stored)) {
      throw claimant.error("keeps secondary pieces over axes that parameters are not stored over");
    }
    if (storage.single_writer && (storage.sharding != Sharding::nothing || storage.axes.size() != 1)) {
      throw claimant.error("lets a single rank update parameters that it also shards");
    }
    if (storage.values_place != MemoryPlace::device && storage.sharding != Sharding::values) {
      throw claimant.error("keeps values in " + std::string(to_string(storage.values_place)) +
                           " memory without gathering them for the blocks that need them");
    }
  }

  /// If a single rank updates one trained parameter, it must update all of them.
  void require_one_writer() const {
    std::size_t trained = 0;
    std::size_t single = 0;
    for (std::size_t i = 0; i < resolved_.parameters.size(); ++i) {
      if (graph_.parameters[i].role != ParameterRole::trained) continue;
      ++trained;
      if (resolved_.parameters[i].storage.single_writer) ++single;
    }
    if (single == 0 || single == trained) return;
    throw ConfigurationError(
        "some parameters are updated by a single rank, others by all; all parameters must be updated in one way");
  }

  /// Checks that strategies name the same directory, because a rank has only one file.
  void require_one_directory() const {
    const ParameterStorage* first = nullptr;
    for (const auto& [storage, fragments, has_own_bucket] : resolved_.parameters) {
      if (storage.states_place != MemoryPlace::file && storage.values_place != MemoryPlace::file) continue;
      if (first == nullptr) first = &storage;
      if (storage.directory == first->directory) continue;
      throw ConfigurationError("parameters are offloaded to files in '" + first->directory + "' and in '" +
                               storage.directory + "'; all must go to one directory");
    }
  }

  const Graph& graph_;
  ParameterDescriptions describe_;
  const LayoutRules& rules_;
  const Stack& stack_;
  ResolvedStorage resolved_;
};

}  // namespace

ResolvedStorage resolve_storage(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules,
                                const Stack& stack) {
  return StorageResolver(graph, registry, rules, stack).run();
}

}  // namespace strata::host
