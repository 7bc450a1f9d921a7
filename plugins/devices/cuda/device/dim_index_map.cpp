#include "device/dim_index_map.hpp"

#include "shared/index_map.hpp"
#include "strata/error.hpp"

namespace strata::cuda {
namespace {

[[noreturn]] void throw_too_many_runs(const OpInstance& op, const std::string& dims) {
  throw ConfigurationError("op '" + op.op + "' (" + op.name + "): dim '" + dims + "' is dealt in more than " +
                           std::to_string(DimIndexMap::kMaxRuns) + " runs");
}

/// Appends one index, to the last run where it continues that. False if there is no room.
bool append(DimIndexMap& map, std::int64_t global_index) {
  const std::int64_t local = map.local_size++;
  if (map.count > 0) {
    IndexRun& last = map.runs[map.count - 1];
    if (last.global_begin + last.length == global_index) {
      ++last.length;
      return true;
    }
  }
  if (map.count == DimIndexMap::kMaxRuns) return false;
  map.runs[map.count++] = {local, global_index, 1};
  return true;
}

}  // namespace

DimIndexMap dim_index_map(const OpInstance& op, const Dim& dim, int micro_batch) {
  const IndexMap& from = devices::index_map(op, dim);
  if (from.segments.size() > DimIndexMap::kMaxRuns) throw_too_many_runs(op, dim);
  DimIndexMap map;
  map.local_size = from.local_size();
  map.global_size = from.global_size;
  for (const IndexSegment& segment : from.segments) {
    map.runs[map.count++] = {segment.local_begin, segment.global_begin, segment.length};
  }
  map.offset = micro_batch_offset(op, dim, map, micro_batch);
  return map;
}

DimIndexMap dims_index_map(const OpInstance& op, const Dims& dims) {
  DimIndexMap map;
  map.global_size = 1;
  std::vector<const IndexMap*> parts;
  std::int64_t count = 1;
  for (const Dim& dim : dims) {
    parts.push_back(&devices::index_map(op, dim));
    count *= parts.back()->local_size();
    map.global_size *= parts.back()->global_size;
  }
  for (std::int64_t local = 0; local < count; ++local) {
    std::int64_t rest = local;
    std::int64_t global = 0;
    std::int64_t stride = 1;
    for (std::size_t i = parts.size(); i-- > 0;) {
      global += parts[i]->global_index(rest % parts[i]->local_size()) * stride;
      rest /= parts[i]->local_size();
      stride *= parts[i]->global_size;
    }
    if (!append(map, global)) throw_too_many_runs(op, join(dims));
  }
  return map;
}

std::optional<std::string> unsupported_index_maps(const OpInstance& op, const Dims& dims) {
  for (const Dim& dim : dims) {
    const auto found = op.index_maps.find(dim);
    if (found == op.index_maps.end() || found->second.segments.size() <= DimIndexMap::kMaxRuns) continue;
    return "dim '" + dim + "' is dealt in " + std::to_string(found->second.segments.size()) +
           " runs, the kernel takes up to " + std::to_string(DimIndexMap::kMaxRuns);
  }
  return std::nullopt;
}

}  // namespace strata::cuda
