#pragma once

#include <cstdint>
#include <vector>

#include "runtime/buffer_slice.hpp"
#include "train/checkpoint/checkpoint_plan.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace strata::host {

/// A tensor in a rank's file, and where the rank has its elements.
struct RankPiece {
  SafetensorsTensor tensor;
  BufferSlice source;
};

/// The pieces that `rank` writes, in the order of its file: larger elements first.
[[nodiscard]] std::vector<RankPiece> rank_pieces(const std::vector<CheckpointTensor>& plan, int rank);

/// Bytes of tensors that each of `ranks` ranks writes.
[[nodiscard]] std::vector<std::int64_t> bytes_by_rank(const std::vector<CheckpointTensor>& plan, int ranks);

/// Bytes of host memory through which each rank writes its pieces: room for all of them if `whole`, so that training
/// goes on while they are written, or else for a few.
[[nodiscard]] std::vector<std::int64_t> planned_copy_bytes(const std::vector<CheckpointTensor>& plan, int ranks,
                                                           bool whole);

}  // namespace strata::host
