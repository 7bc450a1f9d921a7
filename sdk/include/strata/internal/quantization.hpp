#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/kernel.hpp"

/// \file
/// Blockwise quantisation: the data format of the ops quantize_blocks and dequantize_blocks. Strategies plan buffers by
/// it, and devices compute by it.
///
/// A run of numbers is divided into blocks. The last block may be shorter. Each block is stored as one scale and one
/// integer q in [-L, L] per number, with L = largest(). The number x is approximately q · scale.
///
///   scale = max|x| / L, but at least the smallest normal number
///   q     = x / scale, rounded to the nearest integer, ties to even
///
/// So |x - q · scale| <= scale / 2 = max|x| / 2L, up to the rounding of the scale and of the product. A block with a
/// number that is not finite has the scale NaN, and all its numbers dequantise to NaN. So quantisation does not hide an
/// overflow.

namespace strata {

/// The parameters of blockwise quantisation.
struct STRATA_API BlockQuantization {
  /// Bits of one integer: 8 or 4. Two 4-bit integers share a byte, the first in its lower half.
  int bits = 8;
  /// Numbers per block. Must be even for 4-bit integers.
  std::int64_t block = 256;

  /// Reads the attributes "bits" and "block" of an op. \throws VerificationError for other values.
  static BlockQuantization from(const Attributes& attributes);
  /// Writes the attributes "bits" and "block".
  void add_to(Attributes& attributes) const;

  /// The largest integer L: 127 for 8 bits, 7 for 4 bits.
  [[nodiscard]] int largest() const { return (1 << (bits - 1)) - 1; }
  /// Bytes of the integers, and number of scales, for `run` numbers.
  [[nodiscard]] std::int64_t bytes(std::int64_t run) const { return (run * bits + 7) / 8; }
  [[nodiscard]] std::int64_t scales(std::int64_t run) const { return (run + block - 1) / block; }
};

/// The sizes of one instance of quantize_blocks or dequantize_blocks. A run is one line along the last dimension.
struct STRATA_API QuantizedRuns {
  BlockQuantization quantization;
  /// Numbers per run.
  std::int64_t length = 0;
  /// Number of runs: the product of the other dimensions.
  std::int64_t runs = 0;
  /// For dequantize_blocks: each result is the sum of `sources` quantised operands, stored one after another.
  std::int64_t sources = 1;

  /// \throws VerificationError if the sizes of operands and results do not match.
  static QuantizedRuns from(const OpInstance& instance);
  /// Why from() would throw, for KernelDefinition::unsupported. Empty if it would not.
  static std::optional<std::string> mismatch(const OpInstance& instance);
};

}  // namespace strata
