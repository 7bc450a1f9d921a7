#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strata/layout.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// A part of a logical tensor. `dims` select a block of the tensor, and the part consists of the elements [begin, end)
/// of the block in row-major order. It is the whole block, or the part of it in one piece of a flat bucket.
struct TensorPart {
  /// The global indices of each dim in the block, in the block's order.
  std::vector<IndexMap> dims;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// The part that is the whole block.
  static TensorPart block(std::vector<IndexMap> dims);
  /// All of a tensor.
  static TensorPart whole(const Shape& shape);

  [[nodiscard]] std::int64_t elements() const { return end - begin; }
  [[nodiscard]] std::int64_t block_elements() const;
  [[nodiscard]] bool is_block() const { return begin == 0 && end == block_elements(); }
  /// Shape of an array with the part: the block's shape, or one-dimensional if the part is not the whole block.
  [[nodiscard]] Shape shape() const;
  /// Shape of the whole tensor.
  [[nodiscard]] Shape tensor_shape() const;

  bool operator==(const TensorPart&) const = default;
};

/// Called for a run of elements that is contiguous in two parts, with its first elements in both.
using VisitRun = std::function<void(std::int64_t at_a, std::int64_t at_b, std::int64_t length)>;

/// Calls `visit` for all elements that two parts of a tensor have in common, in the order of `a`. Positions count from
/// the first elements of the parts.
void for_each_common_run(const TensorPart& a, const TensorPart& b, const VisitRun& visit);

/// Calls `visit(local, global, length)` for every run of elements that is contiguous in the part and in the whole
/// tensor, in the order of the part. `local` counts from the part's first element.
void for_each_run(const TensorPart& part, const VisitRun& visit);

}  // namespace strata::host
