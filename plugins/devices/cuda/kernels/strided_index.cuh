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

  /// Appends an inner dim. Merges it with the last dim if one stride covers both.
  void append(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (count > 0 && strides[count - 1] == size * stride) {
      --count;
      size *= sizes[count];
    }
    sizes[count] = size;
    strides[count++] = stride;
  }
};

/// The offsets, in a row-major tensor that has the dims for which `has` is true, along those of the first `count` dims
/// for which `chosen` is.
template <class Has, class Chosen>
StridedIndex strided_index(const devices::BroadcastShape& shape, int count, const Has& has, const Chosen& chosen) {
  std::int64_t strides[StridedIndex::kMaxDims] = {};
  std::int64_t stride = 1;
  for (int i = shape.count - 1; i >= 0; --i) {
    if (!has(i)) continue;
    strides[i] = stride;
    stride *= shape.sizes[i];
  }
  StridedIndex index;
  for (int i = 0; i < count; ++i) {
    if (chosen(i)) index.append(shape.sizes[i], strides[i]);
  }
  return index;
}

/// Maps every element of the larger operand to its element of the smaller one.
inline StridedIndex part_index(const devices::BroadcastShape& shape) {
  return strided_index(
      shape, shape.count, [&](int i) { return shape.present[i]; }, [](int) { return true; });
}

/// Offsets in the larger operand of the elements whose index is 0 along all dims except selected ones. Of the first
/// `count` dims, the selected dims are those that the smaller operand has (`present`) or lacks.
inline StridedIndex index_along(const devices::BroadcastShape& shape, int count, bool present) {
  return strided_index(
      shape, count, [](int) { return true; }, [&](int i) { return shape.present[i] == present; });
}

}  // namespace strata::cuda
