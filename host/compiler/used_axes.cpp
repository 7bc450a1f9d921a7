#include "compiler/used_axes.hpp"

namespace strata::host {
namespace {

/// The sizes that an axis does not divide, alone or together with the other axes of the dim: "heads = 3, ffn = 48".
std::string sizes_of_mapped_dims(const Stack& stack, const LayoutRules& rules, const Axis& axis) {
  std::set<std::string> sizes;
  for (const Rule& rule : stack.rules) {
    const auto size = rules.sizes().find(rule.dim);
    if (rule.axis == axis && size != rules.sizes().end()) sizes.insert(rule.dim + " = " + std::to_string(size->second));
  }
  return join({sizes.begin(), sizes.end()}, ", ");
}

}  // namespace

void require_every_axis_used(const Stack& stack, const LayoutRules& rules, const std::set<Axis>& used) {
  for (const MeshAxis& axis : stack.mesh.axes()) {
    if (axis.size == 1 || used.contains(axis.name)) continue;
    const std::string sizes = sizes_of_mapped_dims(stack, rules, axis.name);
    throw stack.owner(axis.name).error(
        "adds mesh axis '" + axis.name + "' of size " + std::to_string(axis.size) + ", which shards nothing: " +
        (sizes.empty() ? "the model has no dimension that its rules name"
                       : "found " + sizes +
                             "; accepted: one that is a multiple of the sizes of all axes that shard it, twice for "
                             "zigzag"));
  }
}

}  // namespace strata::host
