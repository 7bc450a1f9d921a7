#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_plan.hpp"
#include "compiler/program/folded_mesh.hpp"

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

std::uint64_t bytes_of(const CheckpointTensor& tensor) {
  return static_cast<std::uint64_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
}

/// What tensors have in common that the same ranks write, each in the same piece of its bucket.
struct WrittenAlike {
  Coordinates writers;
  std::vector<Axis> bucket_axes;

  auto operator<=>(const WrittenAlike&) const = default;
};

/// Adds the bytes of the parts of a tensor, by the piece of its bucket that they are in.
void add_parts(const CheckpointTensor& tensor, const Mesh& mesh, std::vector<std::int64_t>& bytes) {
  const std::int64_t block = Shard(tensor.storage.dims, mesh, 0).local_elements();
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const auto& bucket = tensor.storage.bucket;
  const std::int64_t pieces = bucket ? mesh.size(bucket->axes) : 1;
  const std::int64_t length = bucket ? bucket->elements / pieces : block;
  const std::int64_t offset = bucket ? bucket->offset : 0;
  bytes.resize(static_cast<std::size_t>(pieces));
  for (std::int64_t begin = offset; begin < offset + block;) {
    const std::int64_t piece = begin / length;
    const std::int64_t end = std::min(offset + block, (piece + 1) * length);
    bytes[static_cast<std::size_t>(piece)] += (end - begin) * size;
    begin = end;
  }
}

/// Adds `sums`, which are by piece of a bucket, to the bytes of the ranks that write the pieces.
void add_to_writers(const WrittenAlike& alike, const std::vector<std::int64_t>& sums, const Mesh& mesh,
                    std::vector<std::int64_t>& bytes) {
  std::vector<std::pair<AxisCoordinate, int>> axes;
  for (const Axis& axis : alike.bucket_axes) axes.emplace_back(AxisCoordinate(mesh, axis), mesh.size(axis));
  for (const int rank : ranks_at(mesh, alike.writers)) {
    std::size_t piece = 0;
    for (const auto& [coordinate, size] : axes) {
      piece = piece * static_cast<std::size_t>(size) + static_cast<std::size_t>(coordinate(rank));
    }
    bytes[static_cast<std::size_t>(rank)] += sums[piece];
  }
}

}  // namespace

std::uint64_t checkpoint_bytes(const CheckpointPlan& plan) {
  std::uint64_t sum = 0;
  for (const CheckpointTensor& tensor : plan.tensors()) sum += bytes_of(tensor);
  return sum;
}

std::uint64_t frozen_bytes(const CheckpointPlan& plan) {
  std::uint64_t sum = 0;
  for (const CheckpointTensor& tensor : plan.tensors()) sum += tensor.frozen ? bytes_of(tensor) : 0;
  return sum;
}

std::string file_stem(int rank, RankFile file) {
  return fmt::format("{}-{:05}", file == RankFile::frozen ? "frozen" : "rank", rank);
}

std::vector<RankPiece> rank_pieces(const CheckpointPlan& plan, int rank, RankFile file) {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, BufferSlice> sources;
  for (const CheckpointTensor& tensor : plan.tensors()) {
    if (!belongs(tensor, file)) continue;
    const std::optional<CheckpointPiece> piece = plan.piece(tensor, rank);
    if (!piece) continue;
    sources.emplace(tensor.name, piece->source);
    tensors.push_back({tensor.name, tensor.dtype, piece->part.shape()});
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

std::vector<std::int64_t> bytes_by_rank(const CheckpointPlan& plan, RankFile file) {
  const Mesh& mesh = plan.ranks().mesh;
  std::map<WrittenAlike, std::vector<std::int64_t>> written;
  for (const CheckpointTensor& tensor : plan.tensors()) {
    if (!belongs(tensor, file)) continue;
    const auto& bucket = tensor.storage.bucket;
    add_parts(tensor, mesh, written[{tensor.writers, bucket ? bucket->axes : std::vector<Axis>{}}]);
  }
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(mesh.rank_count()));
  for (const auto& [alike, sums] : written) add_to_writers(alike, sums, mesh, bytes);
  return bytes;
}

std::vector<CopyBytes> planned_copies(const CheckpointPlan& plan, bool whole) {
  const std::vector<std::int64_t> changing = bytes_by_rank(plan, RankFile::changing);
  const std::vector<std::int64_t> frozen = bytes_by_rank(plan, RankFile::frozen);
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
