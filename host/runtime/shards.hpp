#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/tensor_part.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Elements [begin, begin + elements) of a buffer.
struct BufferSlice {
  BufferId buffer = -1;
  std::int64_t begin = 0;
  std::int64_t elements = 0;
};

/// Copies a slice of a rank's buffer to host memory (ReadSlice) or from it (WriteSlice).
using ReadSlice = std::function<void(const BufferSlice&, void*)>;
using WriteSlice = std::function<void(const BufferSlice&, const void*)>;

/// How ranks store a tensor. Each rank has a block of the tensor. If the tensor is in a sharded bucket, the rank has
/// only the part of its block that is in its piece of the bucket.
struct TensorStorage {
  std::vector<ShardedDim> dims;
  /// Set if the buffer is a piece of a flat bucket.
  std::optional<FlatSharding> bucket;

  bool operator==(const TensorStorage&) const = default;
};

/// Name of the leading dimension of a tensor of which replicas along unsynchronized axes hold different ones. Its index
/// counts the replicas in mesh order.
inline constexpr const char* kReplicaDim = "replica";

/// The storage of `buffer`, which is the value or a state of `parameter`. If it differs along unsynchronized axes, all
/// replicas' tensors form one, with the leading dimension kReplicaDim.
[[nodiscard]] TensorStorage storage_of(const Program& program, const StoredParameter& parameter, BufferId buffer);

/// The axes along which ranks hold different parts.
[[nodiscard]] AxisSet shard_axes(const TensorStorage& storage);

/// The part of a logical tensor that one rank holds, and its position in the rank's buffer. The part is contiguous and
/// row-major. It may be empty if the tensor is in a bucket.
class Shard {
 public:
  /// \throws VerificationError if the tensor exceeds its bucket.
  Shard(const TensorStorage& storage, const Mesh& mesh, int rank);
  /// The shard of a tensor that is not in a bucket.
  Shard(const std::vector<ShardedDim>& dims, const Mesh& mesh, int rank) : Shard(TensorStorage{dims, {}}, mesh, rank) {}

  [[nodiscard]] const TensorPart& part() const { return part_; }
  /// The global indices of the rank's block, by dim.
  [[nodiscard]] const std::vector<IndexMap>& dims() const { return part_.dims; }
  [[nodiscard]] std::int64_t local_elements() const { return part_.elements(); }
  [[nodiscard]] std::int64_t global_elements() const { return global_elements_; }
  /// Elements of the whole buffer: of the block, or of the piece of the bucket.
  [[nodiscard]] std::int64_t buffer_elements() const { return buffer_elements_; }
  /// The slice of `buffer` that contains the part.
  [[nodiscard]] BufferSlice slice(BufferId buffer) const { return {buffer, buffer_begin_, local_elements()}; }

  /// Calls `visit(local, global, length)` for every run that is contiguous in the part and in the whole tensor, in the
  /// order of the part. `local` counts from the part's first element.
  template <class Visit>
  void for_each_run(const Visit& visit) const {
    std::int64_t at = 0;
    visit_runs(0, 0, at, [&](std::int64_t local, std::int64_t global, std::int64_t length) {
      const std::int64_t first = std::max<std::int64_t>(0, part_.begin - local);
      const std::int64_t last = std::min(length, part_.end - local);
      if (first < last) visit(local + first - part_.begin, global + first, last - first);
    });
  }

  /// Copies the rank's elements to their positions in the whole tensor.
  void gather(const void* local, void* whole, std::size_t element_size) const;
  /// Copies the rank's elements from the whole tensor.
  void scatter(const void* whole, void* local, std::size_t element_size) const;

 private:
  /// Reduces the block to the part in the rank's piece of the bucket.
  void cut(const FlatSharding& bucket, const Mesh& mesh, const Coordinates& coordinates);

  /// Visits the runs of the whole block.
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
  /// Distance in elements, in the whole tensor, between neighbouring indices of each dim.
  std::vector<std::int64_t> strides_;
  /// Number of leading dims to loop over. The dims after them are whole and form one run.
  std::size_t run_dims_ = 0;
  std::int64_t run_length_ = 1;
  std::int64_t global_elements_ = 1;
  std::int64_t buffer_begin_ = 0;
  std::int64_t buffer_elements_ = 0;
};

/// The part of a tensor that `buffer`, the value or a state of `parameter`, holds on `rank`. \throws VerificationError
/// that names the parameter if the buffer's size does not match its storage.
[[nodiscard]] Shard shard_of(const Program& program, const StoredParameter& parameter, BufferId buffer, int rank);

/// Zeroes the buffers with pieces of flat buckets, for the sake of the padding between and after the parameters.
void clear_flat_buffers(const Program& program, const WriteSlice& write);

}  // namespace strata::host
