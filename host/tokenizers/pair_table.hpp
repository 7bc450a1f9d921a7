#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace strata::host {

/// A hash table from pairs of tokens to the rank and the result of their join. It is read much more often than written.
class PairTable {
 public:
  static constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
  struct Join {
    std::uint32_t rank = kNoRank;
    std::int32_t token = -1;
  };

  explicit PairTable(std::size_t pairs) : slots_(std::bit_ceil(2 * pairs + 2)) {}

  /// A pair that is set again gets the later rank.
  void set(std::int32_t left, std::int32_t right, Join join) {
    Slot& slot = slots_[position(key(left, right))];
    slot = {key(left, right), join};
  }

  [[nodiscard]] Join find(std::int32_t left, std::int32_t right) const {
    return slots_[position(key(left, right))].join;
  }

 private:
  static constexpr std::uint64_t kFree = std::numeric_limits<std::uint64_t>::max();
  struct Slot {
    std::uint64_t key = kFree;
    Join join;
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U | static_cast<std::uint32_t>(right);
  }

  /// The slot of the key, or the free slot for it.
  [[nodiscard]] std::size_t position(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    const std::uint64_t mixed = (key ^ key >> 29U) * 0x9E3779B97F4A7C15U;
    std::size_t at = (mixed ^ mixed >> 32U) & mask;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace strata::host
