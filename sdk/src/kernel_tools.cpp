#include "strata/kernel_tools.hpp"

#include "strata/error.hpp"

namespace strata::kernels {
namespace {

/// Appends one index. It extends the last segment if it is the next index there.
void append(IndexMap& map, std::int64_t local_index, std::int64_t global_index) {
  if (!map.segments.empty()) {
    IndexSegment& last = map.segments.back();
    if (last.global_begin + last.length == global_index) {
      ++last.length;
      return;
    }
  }
  map.segments.push_back({local_index, global_index, 1});
}

}  // namespace

const IndexMap& index_map(const OpInstance& op, const Dim& dim) {
  const auto found = op.index_maps.find(dim);
  if (found == op.index_maps.end()) {
    throw ConfigurationError("op '" + op.op + "' (" + op.name + ") has no index map for dim '" + dim + "'");
  }
  return found->second;
}

IndexMap index_map(const OpInstance& op, const Dims& dims) {
  IndexMap joined;
  joined.global_size = 1;
  std::vector<const IndexMap*> maps;
  std::int64_t count = 1;
  for (const Dim& dim : dims) {
    maps.push_back(&index_map(op, dim));
    count *= maps.back()->local_size();
    joined.global_size *= maps.back()->global_size;
  }
  for (std::int64_t local = 0; local < count; ++local) {
    std::int64_t rest = local;
    std::int64_t global = 0;
    std::int64_t stride = 1;
    for (std::size_t i = maps.size(); i-- > 0;) {
      global += maps[i]->global_index(rest % maps[i]->local_size()) * stride;
      rest /= maps[i]->local_size();
      stride *= maps[i]->global_size;
    }
    append(joined, local, global);
  }
  return joined;
}

}  // namespace strata::kernels
