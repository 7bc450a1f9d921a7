#pragma once

#include <cstdint>

#include "language/dialect.hpp"
#include "strata/gpu_kernel.hpp"
#include "strata/random.hpp"

namespace strata::cuda {

// The random words of strata/random.hpp, computed by kernels. The host library has its own implementation.

/// The four words of one block of a random stream.
struct RandomWords {
  std::uint32_t words[4];
};

/// Same as random::philox4x32(key, block).
__host__ __device__ __forceinline__ RandomWords philox(std::uint64_t key, std::uint64_t block) {
  std::uint32_t c0 = static_cast<std::uint32_t>(block);
  std::uint32_t c1 = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t c2 = 0;
  std::uint32_t c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(product0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// Same as random::word(key, index). To use neighbouring words too, draw their block once with philox().
__host__ __device__ __forceinline__ std::uint32_t random_word(std::uint64_t key, std::uint64_t index) {
  const RandomWords random = philox(key, index / 4);
  // Select the word by conditions. An array that is indexed by a variable would be in memory instead of registers.
  const std::uint32_t of_lower_pair = (index & 1U) == 0 ? random.words[0] : random.words[1];
  const std::uint32_t of_upper_pair = (index & 1U) == 0 ? random.words[2] : random.words[3];
  return (index & 2U) == 0 ? of_lower_pair : of_upper_pair;
}

/// The random numbers of one op in the current step.
struct RandomStream {
  /// Result of random::stream_base().
  std::uint64_t base = 0;
  const StepValues* step = nullptr;

  /// Same as random::stream_key().
  [[nodiscard]] __device__ __forceinline__ std::uint64_t key() const {
    return random::step_key(base, __ldg(&step->step));
  }
};

}  // namespace strata::cuda
