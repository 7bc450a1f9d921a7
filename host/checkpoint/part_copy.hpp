#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/tensor_part.hpp"

namespace strata::host {

/// Copies the elements that two parts of a tensor have in common from one array to another.
class PartCopy {
 public:
  PartCopy(const TensorPart& source, const TensorPart& destination, std::size_t element_bytes);

  /// Each array begins with the first element of its part. \return the number of copied elements.
  std::int64_t run(const std::byte* source, std::byte* destination) const;
  /// True if the parts have elements in common.
  [[nodiscard]] bool has_elements() const;

 private:
  /// A run of indices of one dim that both blocks contain.
  struct Overlap {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t length = 0;
  };
  static std::vector<Overlap> overlaps(const IndexMap& source, const IndexMap& destination);

  /// Copies the dims from `dim` on. Their first elements are at `from` and `to` within the blocks. Without a
  /// destination it copies nothing, and returns when it has found common elements.
  std::int64_t copy_dims(std::size_t dim, std::int64_t from, std::int64_t to, const std::byte* source,
                         std::byte* destination) const;
  /// Copies the elements of a run of the blocks that both parts contain.
  std::int64_t copy_run(std::int64_t from, std::int64_t to, std::int64_t length, const std::byte* source,
                        std::byte* destination) const;

  std::int64_t source_begin_;
  std::int64_t source_end_;
  std::int64_t destination_begin_;
  std::int64_t destination_end_;
  std::int64_t element_bytes_;
  /// Distance in elements, within a block, between neighbouring indices of each dim. The extra last entry is 1.
  std::vector<std::int64_t> source_pitch_;
  std::vector<std::int64_t> destination_pitch_;
  std::vector<std::vector<Overlap>> overlaps_;
};

}  // namespace strata::host
