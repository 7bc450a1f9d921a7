#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace strata::host {

/// Finds the texts of a list that begin at a byte of a text.
class ByteTrie {
 public:
  /// Adds a text that is not empty. Of equal texts, the last has the number.
  void add(std::string_view text, std::int32_t number);

  /// Calls `use(bytes, number)` for each text with which `text` begins, the shortest first.
  template <class Use>
  void each_prefix(std::string_view text, Use use) const {
    if (text.empty()) return;
    std::int32_t node = first_[static_cast<unsigned char>(text[0])];
    for (std::size_t at = 0; node >= 0;) {
      const std::int32_t number = numbers_[static_cast<std::size_t>(node)];
      ++at;
      if (number >= 0) use(at, number);
      if (at == text.size()) return;
      node = child(node, text[at]);
    }
  }

  /// False if no text begins with `letter`.
  [[nodiscard]] bool begins(char letter) const { return first_[static_cast<unsigned char>(letter)] >= 0; }
  [[nodiscard]] bool empty() const { return numbers_.empty(); }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Edge {
    /// The node and the letter that follows it.
    std::uint64_t key = kFree;
    std::int32_t child = -1;
  };

  static std::uint64_t key(std::int32_t node, char letter) {
    return static_cast<std::uint64_t>(node) << 8U | static_cast<unsigned char>(letter);
  }
  [[nodiscard]] std::size_t position(std::uint64_t key) const {
    std::size_t at = (key * 0x9E3779B97F4A7C15U) >> shift_;
    while (edges_[at].key != key && edges_[at].key != kFree) at = (at + 1) & (edges_.size() - 1);
    return at;
  }
  [[nodiscard]] std::int32_t child(std::int32_t node, char letter) const {
    return edges_.empty() ? -1 : edges_[position(key(node, letter))].child;
  }
  std::int32_t new_node();
  void grow();

  /// The node of each first letter.
  std::array<std::int32_t, 256> first_ = [] {
    std::array<std::int32_t, 256> none{};
    none.fill(-1);
    return none;
  }();
  /// The number of the text that ends in a node, or -1.
  std::vector<std::int32_t> numbers_;
  std::vector<Edge> edges_;
  std::size_t edge_count_ = 0;
  unsigned shift_ = 64;
};

}  // namespace strata::host
