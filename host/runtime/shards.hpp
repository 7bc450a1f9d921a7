#pragma once

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
  /// Elements of the whole buffer: of the block, or of the piece of the bucket.
  [[nodiscard]] std::int64_t buffer_elements() const { return buffer_elements_; }
  /// The slice of `buffer` that contains the part.
  [[nodiscard]] BufferSlice slice(BufferId buffer) const { return {buffer, buffer_begin_, local_elements()}; }

 private:
  /// Reduces the block to the part in the rank's piece of the bucket.
  void cut(const FlatSharding& bucket, const Mesh& mesh, const Coordinates& coordinates);

  TensorPart part_;
  std::int64_t buffer_begin_ = 0;
  std::int64_t buffer_elements_ = 0;
};

/// The part of a tensor that `buffer`, the value or a state of `parameter`, holds on `rank`. \throws VerificationError
/// that names the parameter if the buffer's size does not match its storage.
[[nodiscard]] Shard shard_of(const Program& program, const StoredParameter& parameter, BufferId buffer, int rank);

/// Zeroes the buffers with pieces of flat buckets, for the sake of the padding between and after the parameters.
void clear_flat_buffers(const Program& program, const WriteSlice& write);

}  // namespace strata::host
