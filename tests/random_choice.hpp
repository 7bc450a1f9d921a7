#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/random.hpp"

namespace strata::testing {

/// Random choices that depend only on the seed and the name.
class RandomChoice {
 public:
  explicit RandomChoice(std::uint64_t seed, const std::string& name = "choice")
      : key_(random::stream_key(seed, name, 0)) {}

  /// A number of at least 0 and below `bound`.
  template <class Integer>
  Integer below(Integer bound) {
    return static_cast<Integer>(random::below(key_, next_++, static_cast<std::uint64_t>(bound)));
  }
  bool flip() { return below(2) == 1; }
  double normal() { return random::normal(key_, next_++); }
  template <class T>
  T of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

}  // namespace strata::testing
