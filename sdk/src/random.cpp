#include "strata/random.hpp"

#include <bit>
#include <cmath>
#include <numbers>

namespace strata::random {
namespace {

/// Rounds of the Feistel network of permuted(). The usual four do not look random on small domains.
constexpr std::uint64_t kRounds = 8;

/// The Feistel network on numbers of 2 · `half_bits` bits.
std::uint64_t shuffled(std::uint64_t key, unsigned half_bits, std::uint64_t value) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = philox4x32(key, (round << 32U) | right)[0] & mask;
    const std::uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

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

std::uint64_t permuted(std::uint64_t key, std::uint64_t size, std::uint64_t index) {
  const unsigned bits = static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(size, 2) - 1));
  do {
    index = shuffled(key, (bits + 1) / 2, index);
  } while (index >= size);
  return index;
}

}  // namespace strata::random
