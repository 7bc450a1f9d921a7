#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// \file
/// Conversions of the 16-bit floating-point types, for code without hardware support for them.

namespace strata {

/// The bits of the nearest bf16, ties to even. NaN stays NaN.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

/// The number with these bits, exactly.
inline float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

/// The bits of the nearest IEEE binary16, ties to even. Larger magnitudes become infinity. NaN stays NaN.
inline std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00U);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7C00U);
  // Below 2^-14 a binary16 has a spacing of 2^-24, as a binary32 has near 0.5. So adding 0.5 rounds to that spacing.
  if (magnitude < 0x1p-14F) {
    const auto rounded = std::bit_cast<std::uint32_t>(magnitude + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
    return static_cast<std::uint16_t>(sign | rounded);
  }
  const std::uint32_t rebased = (bits & 0x7FFFFFFFU) - (112U << 23U);
  return static_cast<std::uint16_t>(sign | ((rebased + 0xFFFU + ((rebased >> 13U) & 1U)) >> 13U));
}

/// The number with these bits, exactly.
inline float from_f16(std::uint16_t bits) {
  const std::uint32_t fields = (bits & 0x7FFFU)
                               << 13U;  // in the places of a binary32, whose exponents are larger by 112
  const bool is_finite = fields < (0x7C00U << 13U);
  const float magnitude =
      is_finite ? std::bit_cast<float>(fields) * 0x1p112F : std::bit_cast<float>(fields | 0x7F800000U);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

}  // namespace strata
