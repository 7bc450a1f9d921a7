#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
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

/// Finds the texts of a list that begin at a byte of a text.
class ByteTrie {
 public:
  /// Adds a text that is not empty. Of equal texts, the last has the number.
  void add(std::string_view text, std::int32_t number) {
    std::optional<std::int32_t> node;
    for (const char letter : text) {
      std::optional<std::int32_t>& child = node ? edges_.at(edge(*node, letter)) : first_[letter_index(letter)];
      if (!child) {
        child = static_cast<std::int32_t>(numbers_.size());
        numbers_.push_back(-1);
      }
      node = child;
    }
    numbers_[static_cast<std::size_t>(*node)] = number;
  }

  /// Calls `use(bytes, number)` for each text with which `text` begins, the shortest first.
  template <class Use>
  void each_prefix(std::string_view text, Use use) const {
    if (text.empty()) return;
    std::optional<std::int32_t> node = first_[letter_index(text[0])];
    for (std::size_t at = 0; node;) {
      const std::int32_t number = numbers_[static_cast<std::size_t>(*node)];
      ++at;
      if (number >= 0) use(at, number);
      if (at == text.size()) return;
      node = edges_.find(edge(*node, text[at]));
    }
  }

  /// False if no text begins with `letter`.
  [[nodiscard]] bool begins(char letter) const { return first_[letter_index(letter)].has_value(); }
  [[nodiscard]] bool empty() const { return numbers_.empty(); }

 private:
  static std::size_t letter_index(char letter) { return static_cast<unsigned char>(letter); }
  static std::uint64_t edge(std::int32_t node, char letter) {
    return static_cast<std::uint64_t>(node) << 8U | static_cast<unsigned char>(letter);
  }

  /// The node of each first letter.
  std::vector<std::optional<std::int32_t>> first_ = std::vector<std::optional<std::int32_t>>(256);
  /// The number of the text that ends in a node, or -1.
  std::vector<std::int32_t> numbers_;
  /// By node and the letter that follows it.
  FlatTable<std::optional<std::int32_t>> edges_;
};

}  // namespace strata::host
