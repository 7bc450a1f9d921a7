#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "compiler/check/program_check.hpp"
#include "runtime/shards.hpp"
#include "runtime/tensor_part.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// \file
/// The contents of a checkpoint, and which rank writes which part. Every process computes the same plan from the
/// programs alone, without communication.

/// A tensor of one rank's program that checkpoints contain: a parameter ("wte") or an optimizer state
/// ("optimizer/first_moment/wte").
struct PersistentTensor {
  std::string name;
  BufferId buffer = -1;
  DType dtype = DType::f32;
  /// The parameter in the program. Owned by the program.
  const StoredParameter* parameter = nullptr;
};

[[nodiscard]] std::vector<PersistentTensor> persistent_tensors(const Program& program);

/// Name of an optimizer state in a checkpoint.
[[nodiscard]] std::string state_name(std::string_view state, const std::string& parameter);

/// A part of a logical tensor, the rank that writes it, and its position in the rank's buffer.
struct CheckpointPiece {
  int rank = 0;
  BufferSlice source;
  TensorPart part;
};

/// A program whose ranks hold parts of a tensor.
struct TensorHolder {
  const Program* program = nullptr;
  const StoredParameter* parameter = nullptr;
  BufferId buffer = -1;
};

/// A tensor of a checkpoint, and the ranks that write it.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  /// True for a parameter that no step of the run changes. Such tensors are in files of their own, which the
  /// checkpoints of a run share.
  bool frozen = false;
  /// How its writers store it. Other ranks may store it in another way.
  TensorStorage storage;
  std::vector<TensorHolder> holders;
  /// The coordinates of the writers along the axes that do not shard the tensor. Example: of two replicas, the second
  /// one writes it.
  Coordinates writers;
};

/// The tensors of a checkpoint, in which each byte is written once. If several ranks hold the same part of a tensor,
/// one of them writes it: tensors are dealt, largest first, to the replica whose ranks have the fewest bytes to write.
/// Those in one sharded bucket are dealt together. Frozen tensors are dealt apart, because few checkpoints write them.
/// Example: of two replicas each writes about half of the model. If programs store a tensor in different ways, such as
/// a tied weight in different buckets of two stages, the ranks of one way write all of it.
///
/// The plan is about classes of ranks. It finds the part of a rank when it is asked for.
class CheckpointPlan {
 public:
  CheckpointPlan() = default;
  /// The programs outlive the plan. \throws VerificationError if the parts of a tensor do not cover it.
  explicit CheckpointPlan(RankPrograms ranks);

  /// The tensors, sorted by name.
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const RankPrograms& ranks() const { return ranks_; }
  /// The part of a tensor that `rank` writes. Empty if it writes none.
  [[nodiscard]] std::optional<CheckpointPiece> piece(const CheckpointTensor& tensor, int rank) const;
  /// All parts of a tensor, by rank.
  [[nodiscard]] std::vector<CheckpointPiece> pieces(const CheckpointTensor& tensor) const;

 private:
  RankPrograms ranks_;
  std::vector<CheckpointTensor> tensors_;
};

/// Total size of all tensors in bytes.
[[nodiscard]] std::uint64_t checkpoint_bytes(const CheckpointPlan& plan);
/// Total size of the frozen tensors in bytes.
[[nodiscard]] std::uint64_t frozen_bytes(const CheckpointPlan& plan);

/// The two files of a rank in a checkpoint.
enum class RankFile : std::uint8_t {
  changing,  ///< tensors that steps change
  frozen     ///< CheckpointTensor::frozen
};

/// The name of a rank's file without its ending: "rank-00003" or "frozen-00003".
[[nodiscard]] std::string file_stem(int rank, RankFile file);

/// A tensor in a rank's file, and where the rank has its elements.
struct RankPiece {
  SafetensorsTensor tensor;
  BufferSlice source;
};

/// The pieces in `file` of `rank`, in their order there: larger elements first.
[[nodiscard]] std::vector<RankPiece> rank_pieces(const CheckpointPlan& plan, int rank, RankFile file);

/// Bytes of tensors in `file` of each rank.
[[nodiscard]] std::vector<std::int64_t> bytes_by_rank(const CheckpointPlan& plan, RankFile file);

/// Bytes of host memory through which a rank writes its two files.
struct CopyBytes {
  std::int64_t changing = 0;
  std::int64_t frozen = 0;
};

/// For each rank: room for all pieces that change if `whole`, so that training goes on while they are written, or else
/// for a few. Frozen pieces may be copied at any time, so there is room for a few.
[[nodiscard]] std::vector<CopyBytes> planned_copies(const CheckpointPlan& plan, bool whole);
/// The sums of both.
[[nodiscard]] std::vector<std::int64_t> planned_copy_bytes(const std::vector<CopyBytes>& copies);

}  // namespace strata::host
