#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/buffer_slice.hpp"
#include "runtime/tensor_part.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// How a tensor lies in the buffers of the ranks: each has its block, or the part of it that is in the rank's piece of
/// a flat bucket.
struct TensorStorage {
  std::vector<ShardedDim> dims;
  /// Set where a buffer is a piece of a flat bucket.
  std::optional<FlatSharding> bucket;

  bool operator==(const TensorStorage&) const = default;
};

/// How `buffer`, the value or a state of `parameter`, is stored.
[[nodiscard]] TensorStorage storage_of(const StoredParameter& parameter, BufferId buffer);

/// The mesh axes along which ranks hold different parts.
[[nodiscard]] AxisSet shard_axes(const TensorStorage& storage);

/// The part of a logical tensor that one rank holds, and where it lies in the rank's buffer: dense, in row-major order.
/// May be empty in a flat bucket.
class Shard {
 public:
  /// \throws VerificationError where the tensor does not fit its bucket.
  Shard(const TensorStorage& storage, const Mesh& mesh, int rank);
  /// A rank's block.
  Shard(const std::vector<ShardedDim>& dims, const Mesh& mesh, int rank) : Shard(TensorStorage{dims, {}}, mesh, rank) {}

  [[nodiscard]] const TensorPart& part() const { return part_; }
  /// Which global indices the rank's block has, by dim.
  [[nodiscard]] const std::vector<IndexMap>& dims() const { return part_.dims; }
  [[nodiscard]] std::int64_t local_elements() const { return part_.elements(); }
  [[nodiscard]] std::int64_t global_elements() const { return global_elements_; }
  /// Where the part's first element lies in the buffer.
  [[nodiscard]] std::int64_t buffer_begin() const { return buffer_begin_; }
  /// Of the whole buffer: the block's, or those of a piece of the bucket.
  [[nodiscard]] std::int64_t buffer_elements() const { return buffer_elements_; }
  /// The part in `buffer`.
  [[nodiscard]] BufferSlice slice(BufferId buffer) const { return {buffer, buffer_begin_, local_elements()}; }

  /// Calls `visit(local, global, length)` for every run of elements that follow each other both in the part and in the
  /// whole tensor, in the order of the part. `local` counts from the part's first element.
  template <class Visit>
  void for_each_run(const Visit& visit) const {
    std::int64_t at = 0;
    visit_runs(0, 0, at, [&](std::int64_t local, std::int64_t global, std::int64_t length) {
      const std::int64_t first = std::max<std::int64_t>(0, part_.begin - local);
      const std::int64_t last = std::min(length, part_.end - local);
      if (first < last) visit(local + first - part_.begin, global + first, last - first);
    });
  }

  /// Puts the rank's elements where they belong in the whole tensor.
  void gather(const void* local, void* whole, std::size_t element_size) const;
  /// Takes the rank's elements out of the whole tensor.
  void scatter(const void* whole, void* local, std::size_t element_size) const;

 private:
  /// Narrows the block to what the rank's piece of the bucket has of it.
  void cut(const FlatSharding& bucket, const Mesh& mesh, const Coordinates& coordinates);

  /// The runs of the whole block.
  template <class Visit>
  void visit_runs(std::size_t dim, std::int64_t global, std::int64_t& local, const Visit& visit) const {
    if (dim == run_dims_) {
      visit(local, global, run_length_);
      local += run_length_;
      return;
    }
    const bool innermost = dim + 1 == run_dims_;
    for (const IndexSegment& segment : part_.dims[dim].segments) {
      const std::int64_t begin = global + segment.global_begin * strides_[dim];
      if (innermost) {
        visit(local, begin, segment.length * run_length_);
        local += segment.length * run_length_;
        continue;
      }
      for (std::int64_t i = 0; i < segment.length; ++i) visit_runs(dim + 1, begin + i * strides_[dim], local, visit);
    }
  }

  TensorPart part_;
  /// Elements of the whole tensor from one index of a dim to the next.
  std::vector<std::int64_t> strides_;
  /// Dims behind these are whole: together they are one run.
  std::size_t run_dims_ = 0;
  std::int64_t run_length_ = 1;
  std::int64_t global_elements_ = 1;
  std::int64_t buffer_begin_ = 0;
  std::int64_t buffer_elements_ = 0;
};

/// What `buffer`, the value or a state of `parameter`, holds on `rank`. \throws VerificationError naming the parameter
/// where the buffer has another size than its storage says.
[[nodiscard]] Shard shard_of(const Program& program, const StoredParameter& parameter, BufferId buffer, int rank);

/// Writes zeros over the buffers in which pieces of flat buckets lie, for the padding between and behind the
/// parameters.
void clear_flat_buffers(const Program& program, const WriteSlice& write);

}  // namespace strata::host
