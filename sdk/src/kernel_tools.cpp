#include "strata/kernel_tools.hpp"

#include <algorithm>

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

/// Elements below which another thread costs more time than it saves, and the unit of ranges: two threads never write
/// to one cache line.
constexpr std::int64_t kParallelGrain = 16384;
constexpr std::int64_t kRangeUnit = 64;

}  // namespace

void parallel_ranges(int threads, std::int64_t count,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& body, std::int64_t elements) {
  const std::int64_t worth = count * elements / kParallelGrain;
  const std::int64_t ranges = std::clamp(worth, std::int64_t{1}, std::int64_t{std::max(threads, 1)});
  const std::int64_t unit = std::max(std::int64_t{1}, kRangeUnit / std::max(std::int64_t{1}, elements));
  const std::int64_t length = ((count + ranges - 1) / ranges + unit - 1) / unit * unit;
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (ranges > 1)
  for (std::int64_t range = 0; range < ranges; ++range) {
    const std::int64_t begin = range * length;
    if (begin < count) body(begin, std::min(count, begin + length));
  }
}

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
