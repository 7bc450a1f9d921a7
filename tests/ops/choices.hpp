#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/random.hpp"

namespace strata::testing {

/// Random choices, the same ones for the same name and seed.
class Choices {
 public:
  Choices(const std::string& name, std::uint64_t seed) : key_(random::stream_key(seed, name, 0)) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random::below(key_, next_++, static_cast<std::uint64_t>(bound)));
  }
  double normal() { return random::normal(key_, next_++); }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

}  // namespace strata::testing
