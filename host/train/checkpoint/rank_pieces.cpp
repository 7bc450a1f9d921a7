#include "train/checkpoint/rank_pieces.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Host memory of a rank that copies a few bytes at a time.
constexpr std::int64_t kSmallCopy = 32 << 20;
/// Larger than the elements of any type.
constexpr std::int64_t kCopyAlignment = 64;

}  // namespace

std::vector<RankPiece> rank_pieces(const std::vector<CheckpointTensor>& plan, int rank) {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, BufferSlice> sources;
  for (const CheckpointTensor& tensor : plan) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.rank != rank) continue;
      if (!sources.emplace(tensor.name, piece.source).second) {
        throw VerificationError("rank " + std::to_string(rank) + " holds two parts of '" + tensor.name + "'");
      }
      tensors.push_back({tensor.name, tensor.dtype, piece.part.shape()});
    }
  }
  sort_for_safetensors(tensors);
  std::vector<RankPiece> pieces;
  pieces.reserve(tensors.size());
  for (SafetensorsTensor& tensor : tensors) {
    const BufferSlice source = sources.at(tensor.name);
    pieces.push_back({std::move(tensor), source});
  }
  return pieces;
}

std::vector<std::int64_t> bytes_by_rank(const std::vector<CheckpointTensor>& plan, int ranks) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks));
  for (const CheckpointTensor& tensor : plan) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      bytes.at(static_cast<std::size_t>(piece.rank)) +=
          piece.part.elements() * static_cast<std::int64_t>(size_of(tensor.dtype));
    }
  }
  return bytes;
}

std::vector<std::int64_t> planned_copy_bytes(const std::vector<CheckpointTensor>& plan, int ranks, bool whole) {
  std::vector<std::int64_t> planned = bytes_by_rank(plan, ranks);
  for (std::int64_t& bytes : planned) {
    bytes = (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
    if (!whole) bytes = std::min(bytes, kSmallCopy);
  }
  return planned;
}

}  // namespace strata::host
