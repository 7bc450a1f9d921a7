#include "tokenizers/byte_trie.hpp"

#include <bit>
#include <utility>

namespace strata::host {

std::int32_t ByteTrie::new_node() {
  numbers_.push_back(-1);
  return static_cast<std::int32_t>(numbers_.size()) - 1;
}

void ByteTrie::grow() {
  const std::vector<Edge> old =
      std::exchange(edges_, std::vector<Edge>(std::max<std::size_t>(1024, 2 * edges_.size())));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(edges_.size()));
  for (const Edge& edge : old) {
    if (edge.key != kFree) edges_[position(edge.key)] = edge;
  }
}

void ByteTrie::add(std::string_view text, std::int32_t number) {
  std::int32_t& first = first_[static_cast<unsigned char>(text[0])];
  if (first < 0) first = new_node();
  std::int32_t node = first;
  for (const char letter : text.substr(1)) {
    if (2 * (edge_count_ + 1) > edges_.size()) grow();
    Edge& edge = edges_[position(key(node, letter))];
    if (edge.key == kFree) {
      edge = {key(node, letter), new_node()};
      ++edge_count_;
    }
    node = edge.child;
  }
  numbers_[static_cast<std::size_t>(node)] = number;
}

}  // namespace strata::host
