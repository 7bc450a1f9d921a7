#pragma once

#include <cstdint>

#include "strata/attributes.hpp"
#include "strata/device.hpp"
#include "strata/export.hpp"

/// \file
/// Quantisation by blocks: what the ops quantize_blocks and dequantize_blocks mean, for those that plan buffers for
/// them and for devices that compute them.
///
/// A run of numbers is cut into blocks, the last one maybe shorter. A block is stored as integers q in [-L, L], L being
/// largest(), and one scale: x ≈ q · scale, with scale = max|x| / L, but never less than the smallest normal number,
/// and q = x / scale rounded to the nearest integer, ties to even. So |x - q · scale| <= scale / 2 = max|x| / 2L, up to
/// the rounding of the scale and of the product. A block in which a number is not finite has the scale NaN, and comes
/// back as NaN as a whole: what went wrong before is not hidden.

namespace strata {

/// How runs of numbers are quantised.
struct STRATA_API BlockQuantization {
  /// Of one integer: 8, or 4, two of which share a byte: the first is its lower half.
  int bits = 8;
  /// Numbers that share a scale; even where integers share bytes.
  std::int64_t block = 256;

  /// From the attributes "bits" and "block" of an op. \throws VerificationError for what is not accepted.
  static BlockQuantization from(const Attributes& attributes);
  void add_to(Attributes& attributes) const;

  /// L: 127 for 8 bits, 7 for 4.
  [[nodiscard]] int largest() const { return (1 << (bits - 1)) - 1; }
  /// Bytes of integers, and scales, of a run.
  [[nodiscard]] std::int64_t bytes(std::int64_t run) const { return (run * bits + 7) / 8; }
  [[nodiscard]] std::int64_t scales(std::int64_t run) const { return (run + block - 1) / block; }
};

/// An instance of quantize_blocks or dequantize_blocks as a kernel sees it: the last dimension is the run, the others
/// are walked from run to run.
struct STRATA_API QuantizedRuns {
  BlockQuantization quantization;
  /// Numbers of a run.
  std::int64_t length = 0;
  std::int64_t runs = 0;
  /// Only of dequantize_blocks: results are the sum of as many quantised operands, which lie one after another.
  std::int64_t sources = 1;

  /// \throws VerificationError where the sizes of operands and results do not fit each other.
  static QuantizedRuns from(const OpInstance& instance);
};

}  // namespace strata
