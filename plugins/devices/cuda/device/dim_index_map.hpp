#pragma once

#include <optional>
#include <string>

#include "language/index_map.hpp"
#include "strata/device.hpp"

namespace strata::cuda {

/// The index map of a dim as kernels take it. The map of the dim that grows with every micro-batch gets its offset from
/// `micro_batch`. \throws ConfigurationError if the instance has no map for `dim`, or one with too many runs.
DimIndexMap dim_index_map(const OpInstance& op, const Dim& dim, int micro_batch = 0);

/// Several dims as one, row-major (the heads of attention). None of them may grow with micro-batches.
DimIndexMap dims_index_map(const OpInstance& op, const Dims& dims);

/// Why kernels cannot take the map of a dim among `dims`: it has too many runs.
std::optional<std::string> unsupported_index_maps(const OpInstance& op, const Dims& dims);

/// What a map's offset is in a launch.
inline std::int64_t micro_batch_offset(const OpInstance& op, const Dim& dim, const DimIndexMap& map, int micro_batch) {
  return op.micro_batch_dim == dim ? map.global_size * micro_batch : 0;
}

}  // namespace strata::cuda
