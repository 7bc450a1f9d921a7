#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/kernel.hpp"

/// \file
/// Weights stored in 8 or 4 bits: the data format of the op dequantize_weight. The numbers of a weight along one of its
/// dimensions are divided into blocks. Each block has one scale, its largest magnitude, and each number of it a code:
///
///   int8   code q in [-127, 127], one byte; the number is scale · q / 127
///   nf4    one of the 16 numbers of kNormalFloat4, half a byte; the number is scale · kNormalFloat4[code]
///
/// nf4 is the 4-bit NormalFloat of Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs" (2023). Its numbers
/// are the quantiles of a normal distribution. A block of n numbers of nf4 takes h = (n + 1) / 2 bytes. The lower half
/// of byte j is the code of number j, its upper half the code of number j + h.
///
/// Encoding the decoded numbers again gives the same codes and scales. A block with a number that is not finite has the
/// scale NaN.

namespace strata {

/// The op: codes, scales -> weight.
inline constexpr const char* kDequantizeWeight = "dequantize_weight";

/// The codes of nf4 in ascending order (appendix E of the paper).
inline constexpr std::array<float, 16> kNormalFloat4 = {-1.0F,
                                                        -0.6961928009986877F,
                                                        -0.5250730514526367F,
                                                        -0.39491748809814453F,
                                                        -0.28444138169288635F,
                                                        -0.18477343022823334F,
                                                        -0.09105003625154495F,
                                                        0.0F,
                                                        0.07958029955625534F,
                                                        0.16093020141124725F,
                                                        0.24611230194568634F,
                                                        0.33791524171829224F,
                                                        0.44070982933044434F,
                                                        0.5626170039176941F,
                                                        0.7229568362236023F,
                                                        1.0F};

/// How the numbers of a weight are coded.
enum class WeightCode : std::uint8_t { int8, nf4 };

/// "int8" or "nf4".
STRATA_API std::string_view to_string(WeightCode code);

/// How runs of numbers are divided into blocks and coded.
struct STRATA_API WeightBlocks {
  WeightCode code = WeightCode::int8;
  /// Numbers per block. The last block of a run may be shorter. Even for nf4.
  std::int64_t size = 64;

  /// Reads the attributes "code" and "block" of an op. \throws VerificationError for other values.
  static WeightBlocks from(const Attributes& attributes);
  /// Writes the attributes "code" and "block".
  void add_to(Attributes& attributes) const;

  /// Bytes of the codes, and number of scales, for a run of `length` numbers.
  [[nodiscard]] std::int64_t bytes(std::int64_t length) const {
    return code == WeightCode::int8 ? length : (length + 1) / 2;
  }
  [[nodiscard]] std::int64_t scales(std::int64_t length) const { return (length + size - 1) / size; }
};

/// A weight as a tensor [outer length inner] in row-major order, with blocks along `length`. Its codes are i8
/// [outer bytes(length) inner], its scales [outer scales(length) inner].
struct STRATA_API BlockedWeight {
  WeightBlocks blocks;
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  /// A weight of `shape` with blocks along the dimension `along`.
  BlockedWeight(const WeightBlocks& blocks, const Shape& shape, std::size_t along);
  /// \throws VerificationError if the sizes of operands and results do not match.
  static BlockedWeight from(const OpInstance& instance);
  /// Why from() would throw, for KernelDefinition::unsupported. Empty if it would not.
  static std::optional<std::string> mismatch(const OpInstance& instance);

  [[nodiscard]] std::int64_t elements() const { return outer * length * inner; }
  [[nodiscard]] std::int64_t bytes() const { return outer * blocks.bytes(length) * inner; }
  [[nodiscard]] std::int64_t scales() const { return outer * blocks.scales(length) * inner; }
};

/// A weight in codes and scales.
struct EncodedWeight {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
};

/// The codes and scales of a weight with `shape.elements()` numbers. Each number gets the nearest code.
[[nodiscard]] STRATA_API EncodedWeight encode_weight(const BlockedWeight& shape, std::span<const float> weight);
/// The scales alone, in a fraction of the time.
[[nodiscard]] STRATA_API std::vector<float> weight_scales(const BlockedWeight& shape, std::span<const float> weight);
/// Writes the numbers that `codes` and `scales` mean to `weight`, rounded from f64.
STRATA_API void decode_weight(const BlockedWeight& shape, std::span<const std::int8_t> codes,
                              std::span<const float> scales, std::span<float> weight);

}  // namespace strata
