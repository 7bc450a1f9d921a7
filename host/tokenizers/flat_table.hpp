#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace strata::host {

/// A hash table of 64-bit keys, all but ~0. It is read much more often than written.
template <class Value>
class FlatTable {
 public:
  /// `keys`: how many are expected.
  explicit FlatTable(std::size_t keys = 0) : slots_(std::bit_ceil(2 * keys + 2)), shift_(shift_of(slots_.size())) {}

  /// The value of a key, or a value that was never set.
  [[nodiscard]] Value find(std::uint64_t key) const { return slots_[position(key)].value; }

  /// The value of a key, to be set.
  Value& at(std::uint64_t key) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[position(key)];
    if (slot.key == kFree) ++used_;
    slot.key = key;
    return slot.value;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Value value = {};
  };

  static unsigned shift_of(std::size_t slots) { return 64U - static_cast<unsigned>(std::countr_zero(slots)); }

  /// The slot of the key, or the free slot for it.
  [[nodiscard]] std::size_t position(std::uint64_t key) const {
    std::size_t at = ((key ^ key >> 29U) * 0x9E3779B97F4A7C15U) >> shift_;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    shift_ = shift_of(slots_.size());
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[position(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  unsigned shift_;
  std::size_t used_ = 0;
};

}  // namespace strata::host
