#pragma once

#include <cstdint>
#include <vector>

#include "strata/layout.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// A part of a logical tensor: of the block that `dims` cut out of it, the elements [begin, end) in row-major order. A
/// block by itself, or what a piece of a flat bucket has of it.
struct TensorPart {
  /// Which global indices of each dim the block has, in its own order.
  std::vector<IndexMap> dims;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// The whole block.
  static TensorPart block(std::vector<IndexMap> dims);

  [[nodiscard]] std::int64_t elements() const { return end - begin; }
  [[nodiscard]] std::int64_t block_elements() const;
  [[nodiscard]] bool is_block() const { return begin == 0 && end == block_elements(); }
  /// Of an array that holds the part: the block's shape, or one dimension where the part is not all of it.
  [[nodiscard]] Shape shape() const;
  /// Of the whole tensor.
  [[nodiscard]] Shape tensor_shape() const;

  bool operator==(const TensorPart&) const = default;
};

}  // namespace strata::host
