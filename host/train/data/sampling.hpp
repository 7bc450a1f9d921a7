#pragma once

#include <cstdint>

namespace strata::host {

/// A random permutation of [0, size), computed element by element. It is a Feistel network over the next power of four,
/// repeated until the result is below `size` (cycle walking).
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

/// Maps sample g of a run to a window of the text. Each epoch visits every window of a grid once, in its own random
/// order. The grid starts at another token in every epoch, so windows differ between epochs. The mapping depends only
/// on the seed, the text's length and the context.
class EpochSampler {
 public:
  /// `tokens` must exceed `context`, because a window needs the target of its last token.
  EpochSampler(std::uint64_t seed, std::int64_t tokens, std::int64_t context);

  [[nodiscard]] std::int64_t windows_per_epoch() const { return windows_; }
  /// Index of the first token of sample number `sample`.
  [[nodiscard]] std::int64_t window_begin(std::uint64_t sample) const;

 private:
  std::uint64_t seed_;
  std::int64_t context_;
  std::int64_t windows_;
  std::int64_t shifts_;
};

}  // namespace strata::host
