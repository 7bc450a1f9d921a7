#pragma once

#include <cstdint>

namespace strata::host {

/// A random permutation of [0, size) that is computed element by element: a Feistel network over the next power of
/// four, walked until it comes back into range.
class Permutation {
 public:
  Permutation(std::uint64_t key, std::uint64_t size);
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  [[nodiscard]] std::uint64_t shuffle(std::uint64_t value) const;

  std::uint64_t key_;
  std::uint64_t size_;
  unsigned half_bits_;
};

/// Decides which window of the text is sample g of a run. Each epoch visits every window of a grid once, in an order of
/// its own; the grid begins at another token every epoch, so that windows differ too. Depends on nothing but the seed,
/// the text's length and the context.
class EpochSampler {
 public:
  /// `tokens` must exceed `context`: a window has the target of its last token as well.
  EpochSampler(std::uint64_t seed, std::int64_t tokens, std::int64_t context);

  [[nodiscard]] std::int64_t windows_per_epoch() const { return windows_; }
  /// Index of the first token of sample `sample`.
  [[nodiscard]] std::int64_t window_begin(std::uint64_t sample) const;

 private:
  std::uint64_t seed_;
  std::int64_t context_;
  std::int64_t windows_;
  std::int64_t shifts_;
};

}  // namespace strata::host
