#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "strata/export.hpp"

namespace strata::random {

/// One step of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// The part of the keys of op `name` that is the same in all steps: FNV-1a over the name, mixed with the seed.
STRATA_API std::uint64_t stream_base(std::uint64_t seed, std::string_view name);
/// The key of one step. Kernels that learn the step only at launch derive it from stream_base().
constexpr std::uint64_t step_key(std::uint64_t base, std::uint64_t step) { return mix(base ^ step); }
/// The key of one stream: all random numbers of op `name` at `step` of a run with `seed`.
STRATA_API std::uint64_t stream_key(std::uint64_t seed, std::string_view name, std::uint64_t step);

/// Philox4x32-10: four random words from a counter and a key (Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", SC'11). It is inline because kernels of every device call it.
inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// The four words of block number `block` of the stream `key`. The block number is the counter.
inline std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::uint64_t block) {
  const std::array<std::uint32_t, 4> counter{static_cast<std::uint32_t>(block),
                                             static_cast<std::uint32_t>(block >> 32U), 0, 0};
  return philox4x32(counter, {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32U)});
}

/// The word of element `index` of a stream: lane index % 4 of block index / 4.
inline std::uint32_t word(std::uint64_t key, std::uint64_t index) { return philox4x32(key, index / 4)[index % 4]; }

/// The threshold floor(probability · 2^32). Dropout drops the elements whose word is below it.
inline std::uint32_t drop_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

/// A standard normal number for element `index`, by the Box-Muller transform of the words of block `index`.
STRATA_API double normal(std::uint64_t key, std::uint64_t index);

/// An integer in [0, bound) for element `index`. The bias is negligible for bounds below 2^32.
STRATA_API std::uint64_t below(std::uint64_t key, std::uint64_t index, std::uint64_t bound);

/// A random permutation of [0, size), computed element by element: the value at `index`. It is a Feistel network over
/// the next power of four, repeated until the result is below `size` (cycle walking).
STRATA_API std::uint64_t permuted(std::uint64_t key, std::uint64_t size, std::uint64_t index);

}  // namespace strata::random
