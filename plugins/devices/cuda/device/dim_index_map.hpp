#pragma once

#include <optional>
#include <string>

#include "language/index_map.hpp"
#include "strata/device.hpp"

namespace strata::cuda {

/// Converts the index map of a dim to the form that kernels take. The dim that grows with every micro-batch gets an
/// offset from `micro_batch`. \throws ConfigurationError if the instance has no map for `dim`, or a map with too many
/// runs.
DimIndexMap dim_index_map(const OpInstance& op, const Dim& dim, int micro_batch = 0);

/// Converts the maps of several dims to one row-major map, such as the heads dims of attention. None of the dims may
/// grow with micro-batches.
DimIndexMap dims_index_map(const OpInstance& op, const Dims& dims);

/// Why kernels cannot take the maps of `dims`: the name of a dim with too many runs. Empty if they can.
std::optional<std::string> unsupported_index_maps(const OpInstance& op, const Dims& dims);

/// The offset of a map in a launch for `micro_batch`.
inline std::int64_t micro_batch_offset(const OpInstance& op, const Dim& dim, const DimIndexMap& map, int micro_batch) {
  return op.micro_batch_dim == dim ? map.global_size * micro_batch : 0;
}

}  // namespace strata::cuda
