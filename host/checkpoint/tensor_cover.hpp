#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/shards.hpp"
#include "runtime/tensor_part.hpp"
#include "strata/mesh.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// Why `parts` do not contain every element of a tensor of `shape` exactly once; empty if they do. Blocks of different
/// parts must be equal or disjoint.
[[nodiscard]] std::optional<std::string> find_cover_fault(const Shape& shape, const std::vector<TensorPart>& parts);

/// Whether the parts of ranks contain every element of a tensor exactly once, found without making the parts.
class StorageCover {
 public:
  explicit StorageCover(const Mesh& mesh) : mesh_(mesh) {}

  /// True if the ranks at all coordinates along shard_axes() hold the tensor once. They do if each of these axes shards
  /// it once, and the indices of each dimension are dealt once.
  [[nodiscard]] bool is_whole(const TensorStorage& storage);

 private:
  [[nodiscard]] bool is_dealt_once(const ShardedDim& dim);

  const Mesh& mesh_;
  /// Dimensions that were found to be dealt once. Tensors have few different ones.
  std::vector<ShardedDim> known_;
};

}  // namespace strata::host
