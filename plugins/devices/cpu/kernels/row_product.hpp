#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// c[rows, columns] = a[rows, depth] · b[depth, columns] + bias[columns], for few rows.
struct RowProductShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool transpose_b = false;  ///< b is stored as [columns, depth]
  bool accumulate = false;   ///< true: adds to the contents of c
};

/// The most rows that a product takes.
inline constexpr std::int64_t kProductRows = 8;

/// Matrix products that are limited by reading b, as those of single tokens are. They read b once, in order.
template <class T>
struct RowProductKernels {
  /// `bias`: null for none. c is f32 if `result` says so, else T.
  void (*multiply)(const RowProductShape& shape, const T* a, const T* b, const T* bias, Element result, void* c,
                   int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<RowProductKernels>, row_product_kernels);

}  // namespace strata::cpu
