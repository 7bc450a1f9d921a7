#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizers/flat_table.hpp"

namespace strata::host {

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
