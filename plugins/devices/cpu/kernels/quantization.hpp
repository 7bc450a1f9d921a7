#pragma once

#include <cstdint>

#include "kernels/element.hpp"

namespace strata::cpu {

/// Runs of numbers in blocks that share a scale, the last block of a run maybe shorter.
struct QuantizedBlocks {
  int bits = 8;  ///< 8, or 4: two integers a byte, the first in its lower half
  std::int64_t block = 256;
  std::int64_t length = 0;  ///< numbers of a run
  std::int64_t runs = 0;
  std::int64_t sources = 1;  ///< as many times the runs are dequantised and added up
};

/// Symmetric integers with a scale a block: strata/quantization.hpp says what they mean.
template <class T>
struct QuantizationKernels {
  /// x[runs, length] -> integers, scales
  void (*quantize)(const QuantizedBlocks& shape, const T* x, std::int8_t* integers, float* scales, int threads);
  /// integers, scales, each `sources` times -> y[runs, length], the sum over the sources in their order
  void (*dequantize)(const QuantizedBlocks& shape, const std::int8_t* integers, const float* scales, T* y, int threads);
};

}  // namespace strata::cpu
