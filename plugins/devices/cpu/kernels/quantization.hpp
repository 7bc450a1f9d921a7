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

/// Runs of numbers in blocks with a common scale. The last block of a run may be shorter.
struct QuantizedBlocks {
  int bits = 8;  ///< 8, or 4: two integers per byte, the first in its lower half
  std::int64_t block = 256;
  std::int64_t length = 0;  ///< numbers per run
  std::int64_t runs = 0;
  std::int64_t sources = 1;  ///< number of quantised operands that are dequantised and summed
};

/// Blockwise quantisation to symmetric integers. See strata/internal/quantization.hpp for the data format.
template <class T>
struct QuantizationKernels {
  /// x[runs, length] -> integers, scales
  void (*quantize)(const QuantizedBlocks& shape, const T* x, std::int8_t* integers, float* scales, int threads);
  /// integers, scales, each `sources` times -> y[runs, length], the sum over the sources in their order
  void (*dequantize)(const QuantizedBlocks& shape, const std::int8_t* integers, const float* scales, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<QuantizationKernels>, quantization_kernels);

}  // namespace strata::cpu
