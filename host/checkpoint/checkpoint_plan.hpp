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
/// The contents of a checkpoint, and which rank writes which part. Every rank computes the same plan from the programs
/// alone, without communication.

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

struct CheckpointTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<CheckpointPiece> pieces;
  /// True for a parameter that no step of the run changes. Such tensors are in files of their own, which the
  /// checkpoints of a run share.
  bool frozen = false;
};

/// Plans a checkpoint, in which each byte is written once. If several ranks hold the same part of a tensor, one of them
/// writes it: parts are dealt, largest first, to the rank that has the fewest bytes to write. Frozen tensors are dealt
/// apart, because few checkpoints write them. Example: of two replicas each writes about half of the model. If programs
/// store a tensor in different ways, such as a tied weight in different buckets of two stages, the ranks of one way
/// write all of it. \return the tensors, sorted by name. \throws VerificationError if the parts do not cover a tensor.
[[nodiscard]] std::vector<CheckpointTensor> plan_checkpoint(const RankPrograms& ranks);

/// Total size of all tensors in bytes.
[[nodiscard]] std::uint64_t checkpoint_bytes(const std::vector<CheckpointTensor>& tensors);
/// Total size of the frozen tensors in bytes.
[[nodiscard]] std::uint64_t frozen_bytes(const std::vector<CheckpointTensor>& tensors);

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
[[nodiscard]] std::vector<RankPiece> rank_pieces(const std::vector<CheckpointTensor>& plan, int rank, RankFile file);

/// Bytes of tensors in `file` of each of `ranks` ranks.
[[nodiscard]] std::vector<std::int64_t> bytes_by_rank(const std::vector<CheckpointTensor>& plan, int ranks,
                                                      RankFile file);

/// Bytes of host memory through which a rank writes its two files.
struct CopyBytes {
  std::int64_t changing = 0;
  std::int64_t frozen = 0;
};

/// For each rank: room for all pieces that change if `whole`, so that training goes on while they are written, or else
/// for a few. Frozen pieces may be copied at any time, so there is room for a few.
[[nodiscard]] std::vector<CopyBytes> planned_copies(const std::vector<CheckpointTensor>& plan, int ranks, bool whole);
/// The sums of both.
[[nodiscard]] std::vector<std::int64_t> planned_copy_bytes(const std::vector<CopyBytes>& copies);

/// Why `parts` do not contain every element of a tensor of `shape` exactly once; empty if they do. Blocks of different
/// parts must be equal or disjoint.
[[nodiscard]] std::optional<std::string> find_cover_fault(const Shape& shape, const std::vector<TensorPart>& parts);

}  // namespace strata::host
