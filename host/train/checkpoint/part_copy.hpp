#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/tensor_part.hpp"

namespace strata::host {

/// Copies what two parts of one tensor have in common, from one's array to the other's.
class PartCopy {
 public:
  PartCopy(const TensorPart& source, const TensorPart& destination, std::size_t element_bytes);

  /// Both arrays begin with the first element of their part. \return elements copied.
  std::int64_t run(const std::byte* source, std::byte* destination) const;

 private:
  /// A run of indices of a dim that both blocks have.
  struct Overlap {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t length = 0;
  };
  static std::vector<Overlap> overlaps(const IndexMap& source, const IndexMap& destination);

  /// Dims from `dim` on, of which the first elements are `from` and `to` within the blocks.
  std::int64_t copy_dims(std::size_t dim, std::int64_t from, std::int64_t to, const std::byte* source,
                         std::byte* destination) const;
  /// A run of elements within the blocks: as much of it as both parts have.
  std::int64_t copy_run(std::int64_t from, std::int64_t to, std::int64_t length, const std::byte* source,
                        std::byte* destination) const;

  std::int64_t source_begin_;
  std::int64_t source_end_;
  std::int64_t destination_begin_;
  std::int64_t destination_end_;
  std::int64_t element_bytes_;
  /// Elements of a block from one index of a dim to the next; one entry more, for single elements.
  std::vector<std::int64_t> source_pitch_;
  std::vector<std::int64_t> destination_pitch_;
  std::vector<std::vector<Overlap>> overlaps_;
};

}  // namespace strata::host
