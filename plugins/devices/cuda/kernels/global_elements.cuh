#pragma once

#include "language/index_map.hpp"

namespace strata::cuda {

/// Maps the elements of a rank's tensor to all elements of the step, both in row-major order. Plain data, passed to
/// kernels by value.
struct GlobalElements {
  static constexpr int kMaxDims = 6;
  int count = 0;
  DimIndexMap dims[kMaxDims] = {};
  /// Distance of neighbours along each dim.
  std::int64_t strides[kMaxDims] = {};
  /// Number of elements of earlier micro-batches.
  std::int64_t offset = 0;

  [[nodiscard]] __host__ __device__ std::uint64_t operator()(std::int64_t local) const {
    // Unsigned division is cheaper.
    auto rest = static_cast<std::uint64_t>(local);
    std::int64_t global = offset;
#pragma unroll 1
    for (int i = count - 1; i > 0; --i) {
      const auto size = static_cast<std::uint64_t>(dims[i].local_size);
      const std::uint64_t outer = rest / size;
      global += dims[i].global_index(static_cast<std::int64_t>(rest - outer * size)) * strides[i];
      rest = outer;
    }
    if (count > 0) global += dims[0].global_index(static_cast<std::int64_t>(rest)) * strides[0];
    return static_cast<std::uint64_t>(global);
  }
};

}  // namespace strata::cuda
