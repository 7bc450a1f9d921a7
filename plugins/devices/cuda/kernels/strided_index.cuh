#pragma once

#include <cstdint>

#include "language/dialect.hpp"
#include "shared/broadcast_shape.hpp"

namespace strata::cuda {

/// Maps the elements of a row-major tensor of `sizes` to offsets with the given strides. Plain data, passed to kernels
/// by value.
struct StridedIndex {
  static constexpr int kMaxDims = devices::BroadcastShape::kMaxDims;
  int count = 0;
  std::int64_t sizes[kMaxDims] = {};
  std::int64_t strides[kMaxDims] = {};

  [[nodiscard]] __host__ __device__ std::int64_t operator()(std::int64_t element) const {
    // Unsigned division is cheaper.
    auto rest = static_cast<std::uint64_t>(element);
    std::int64_t place = 0;
#pragma unroll 1
    for (int i = count - 1; i > 0; --i) {
      const auto size = static_cast<std::uint64_t>(sizes[i]);
      const std::uint64_t outer = rest / size;
      place += static_cast<std::int64_t>(rest - outer * size) * strides[i];
      rest = outer;
    }
    return count == 0 ? 0 : place + static_cast<std::int64_t>(rest) * strides[0];
  }

  [[nodiscard]] __host__ __device__ std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= sizes[i];
    return product;
  }
};

}  // namespace strata::cuda
