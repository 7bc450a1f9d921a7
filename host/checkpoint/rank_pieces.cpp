#include "checkpoint/rank_pieces.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
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

bool belongs(const CheckpointTensor& tensor, RankFile file) { return tensor.frozen == (file == RankFile::frozen); }

std::int64_t copy_bytes(std::int64_t bytes, bool whole) {
  const std::int64_t aligned = (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  return whole ? aligned : std::min(aligned, kSmallCopy);
}

}  // namespace

std::string file_stem(int rank, RankFile file) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%s-%05d", file == RankFile::frozen ? "frozen" : "rank", rank);
  return name.data();
}

std::vector<RankPiece> rank_pieces(const std::vector<CheckpointTensor>& plan, int rank, RankFile file) {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, BufferSlice> sources;
  for (const CheckpointTensor& tensor : plan) {
    if (!belongs(tensor, file)) continue;
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

std::vector<std::int64_t> bytes_by_rank(const std::vector<CheckpointTensor>& plan, int ranks, RankFile file) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks));
  for (const CheckpointTensor& tensor : plan) {
    if (!belongs(tensor, file)) continue;
    for (const CheckpointPiece& piece : tensor.pieces) {
      bytes.at(static_cast<std::size_t>(piece.rank)) +=
          piece.part.elements() * static_cast<std::int64_t>(size_of(tensor.dtype));
    }
  }
  return bytes;
}

std::vector<CopyBytes> planned_copies(const std::vector<CheckpointTensor>& plan, int ranks, bool whole) {
  const std::vector<std::int64_t> changing = bytes_by_rank(plan, ranks, RankFile::changing);
  const std::vector<std::int64_t> frozen = bytes_by_rank(plan, ranks, RankFile::frozen);
  std::vector<CopyBytes> copies;
  for (std::size_t rank = 0; rank < changing.size(); ++rank) {
    copies.push_back({copy_bytes(changing[rank], whole), copy_bytes(frozen[rank], false)});
  }
  return copies;
}

std::vector<std::int64_t> planned_copy_bytes(const std::vector<CopyBytes>& copies) {
  std::vector<std::int64_t> bytes;
  bytes.reserve(copies.size());
  for (const CopyBytes& each : copies) bytes.push_back(each.changing + each.frozen);
  return bytes;
}

}  // namespace strata::host
