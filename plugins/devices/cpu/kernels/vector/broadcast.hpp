#pragma once

#include "kernels/vector/vector.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// A BroadcastShape in which neighbouring dims of the same kind are merged. The innermost merged dim is `columns`.
struct MergedShape {
  int count = 0;
  std::int64_t sizes[BroadcastShape::kMaxDims] = {};
  bool present[BroadcastShape::kMaxDims] = {};
  std::int64_t strides[BroadcastShape::kMaxDims] = {};  ///< strides of the smaller operand; 0 for dims that it lacks

  std::int64_t columns() const { return sizes[count - 1]; }
  bool columns_present() const { return present[count - 1]; }

  std::int64_t rows() const {
    std::int64_t product = 1;
    for (int i = 0; i + 1 < count; ++i) product *= sizes[i];
    return product;
  }

  std::int64_t operand_size() const {
    std::int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= present[i] ? sizes[i] : 1;
    return product;
  }

  std::int64_t operand_offset(std::int64_t row) const {
    std::int64_t offset = 0;
    for (int i = count - 2; i >= 0; --i) {
      offset += row % sizes[i] * strides[i];
      row /= sizes[i];
    }
    return offset;
  }
};

inline MergedShape merge(const BroadcastShape& shape) {
  MergedShape merged;
  for (int i = 0; i < shape.count; ++i) {
    if (shape.sizes[i] == 1) continue;
    if (merged.count > 0 && merged.present[merged.count - 1] == shape.present[i]) {
      merged.sizes[merged.count - 1] *= shape.sizes[i];
    } else {
      merged.sizes[merged.count] = shape.sizes[i];
      merged.present[merged.count++] = shape.present[i];
    }
  }
  if (merged.count == 0) {
    merged.sizes[0] = 1;
    merged.present[0] = true;
    merged.count = 1;
  }
  std::int64_t stride = 1;
  for (int i = merged.count - 1; i >= 0; --i) {
    merged.strides[i] = merged.present[i] ? stride : 0;
    if (merged.present[i]) stride *= merged.sizes[i];
  }
  return merged;
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
