#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// A weight [outer length inner] in blocks along `length`. See strata/internal/weight_blocks.hpp for the data format.
struct CodedWeight {
  /// The 16 numbers of 4-bit codes. Null: the codes are integers of 8 bits.
  const float* numbers = nullptr;
  std::int64_t block = 64;
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};

template <class T>
struct WeightKernels {
  /// codes, scales -> y[outer length inner]
  void (*dequantize)(const CodedWeight& weight, const std::int8_t* codes, const float* scales, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<WeightKernels>, weight_kernels);

}  // namespace strata::cpu
