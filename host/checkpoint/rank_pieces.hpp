#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_plan.hpp"
#include "checkpoint/safetensors.hpp"
#include "runtime/shards.hpp"

namespace strata::host {

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

}  // namespace strata::host
