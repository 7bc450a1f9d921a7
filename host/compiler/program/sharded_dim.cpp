#include "compiler/program/sharded_dim.hpp"

namespace strata::host {

ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size, const std::vector<Axis>& axes) {
  ShardedDim sharded{dim, size, {}, dim == "batch"};
  for (const Axis& axis : axes) sharded.axes.push_back({axis, rules.distribution(dim, axis)});
  return sharded;
}

}  // namespace strata::host
