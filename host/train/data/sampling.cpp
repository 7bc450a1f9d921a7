#include "train/data/sampling.hpp"

#include <algorithm>
#include <bit>

#include "strata/random.hpp"

namespace strata::host {
namespace {

/// The usual four rounds do not look random on small domains.
constexpr unsigned kRounds = 8;

}  // namespace

Permutation::Permutation(std::uint64_t key, std::uint64_t size)
    : key_(key),
      size_(size),
      half_bits_((static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(size, 2) - 1)) + 1) / 2) {}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  do {
    index = shuffle(index);
  } while (index >= size_);
  return index;
}

std::uint64_t Permutation::shuffle(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = random::philox4x32(key_, (round << 32U) | right)[0] & mask;
    const std::uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

EpochSampler::EpochSampler(std::uint64_t seed, std::int64_t tokens, std::int64_t context)
    : seed_(seed),
      context_(context),
      windows_(std::max<std::int64_t>(1, tokens / context - 1)),
      shifts_(std::min(context, tokens - windows_ * context)) {}

std::int64_t EpochSampler::window_begin(std::uint64_t sample) const {
  const auto windows = static_cast<std::uint64_t>(windows_);
  const std::uint64_t epoch = sample / windows;
  const std::uint64_t shift_key = random::stream_key(seed_, "data shift", epoch);
  const auto shift = static_cast<std::int64_t>(random::below(shift_key, 0, static_cast<std::uint64_t>(shifts_)));
  const Permutation permutation(random::stream_key(seed_, "data order", epoch), windows);
  return shift + static_cast<std::int64_t>(permutation(sample % windows)) * context_;
}

}  // namespace strata::host
