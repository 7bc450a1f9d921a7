#include "strata/random.hpp"

#include <cmath>
#include <numbers>

namespace strata::random {

std::uint64_t stream_base(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a, 64 bits
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  return mix(mix(seed) ^ hash);
}

std::uint64_t stream_key(std::uint64_t seed, std::string_view name, std::uint64_t step) {
  return step_key(stream_base(seed, name), step);
}

double normal(std::uint64_t key, std::uint64_t index) {
  const auto words = philox4x32(key, index);
  const auto high = (std::uint64_t{words[0]} << 21U) ^ (words[1] >> 11U);
  const auto low = (std::uint64_t{words[2]} << 21U) ^ (words[3] >> 11U);
  const double radius = (static_cast<double>(high & 0x1FFFFFFFFFFFFFU) + 0.5) * 0x1p-53;  // in (0, 1)
  const double angle = static_cast<double>(low & 0x1FFFFFFFFFFFFFU) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(2.0 * std::numbers::pi * angle);
}

std::uint64_t below(std::uint64_t key, std::uint64_t index, std::uint64_t bound) {
  const auto words = philox4x32(key, index);
  const std::uint64_t word = (std::uint64_t{words[0]} << 32U) | words[1];
  // Multiply and keep the upper half (Lemire, 2019). The bias is below bound / 2^64. The product is computed in halves,
  // because ISO C++ has no 128-bit type.
  const std::uint64_t high = (word >> 32U) * bound;
  const std::uint64_t low = (word & 0xFFFFFFFFU) * bound;
  if (bound >> 32U == 0) return (high + (low >> 32U)) >> 32U;
  return word % bound;
}

}  // namespace strata::random
