#pragma once

#include <cstdint>
#include <vector>

#include "strata/random.hpp"

namespace strata::testing {

/// A reproducible stream of choices.
class RandomChoice {
 public:
  explicit RandomChoice(std::uint64_t seed) : key_(random::stream_key(seed, "choice", 0)) {}

  int below(int bound) { return static_cast<int>(random::below(key_, next_++, static_cast<std::uint64_t>(bound))); }
  bool flip() { return below(2) == 1; }
  template <class T>
  T of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
  }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

}  // namespace strata::testing
