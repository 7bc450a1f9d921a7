#include "checkpoint/shared_files.hpp"

#include <algorithm>
#include <set>

#include "checkpoint/checkpoint_names.hpp"
#include "checkpoint/rank_pieces.hpp"

namespace strata::host {

namespace {

/// The piece of `stored` that is `planned`, in the file `name`. Null if there is none with a checksum.
const ManifestPiece* find_piece(const ManifestTensor& stored, const TensorPart& planned, const std::string& name) {
  const auto found = std::find_if(stored.pieces.begin(), stored.pieces.end(), [&](const ManifestPiece& each) {
    return each.file == name && each.part == planned && !each.checksum.empty();
  });
  return found == stored.pieces.end() ? nullptr : &*found;
}

std::size_t count_pieces(const Manifest& manifest, const std::string& file) {
  std::size_t count = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    count += static_cast<std::size_t>(std::count_if(tensor.pieces.begin(), tensor.pieces.end(),
                                                    [&](const ManifestPiece& each) { return each.file == file; }));
  }
  return count;
}

}  // namespace

std::optional<std::map<std::string, std::string>> frozen_checksums(const Manifest& base,
                                                                   const std::vector<CheckpointTensor>& plan,
                                                                   int rank) {
  const std::string name = file_stem(rank, RankFile::frozen) + kTensorSuffix;
  std::map<std::string, std::string> checksums;
  for (const CheckpointTensor& tensor : plan) {
    if (!tensor.frozen) continue;
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.rank != rank) continue;
      const auto stored = base.tensors.find(tensor.name);
      if (stored == base.tensors.end() || stored->second.dtype != tensor.dtype) return std::nullopt;
      const ManifestPiece* found = find_piece(stored->second, piece.part, name);
      if (found == nullptr || found->key != tensor.name) return std::nullopt;
      checksums[tensor.name] = found->checksum;
    }
  }
  if (!base.files.contains(name) || count_pieces(base, name) != checksums.size()) return std::nullopt;
  return checksums;
}

bool has_frozen_files(const Manifest& base, const std::vector<CheckpointTensor>& plan) {
  std::set<int> ranks;
  for (const CheckpointTensor& tensor : plan) {
    if (!tensor.frozen) continue;
    for (const CheckpointPiece& piece : tensor.pieces) ranks.insert(piece.rank);
  }
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return frozen_checksums(base, plan, rank); });
}

}  // namespace strata::host
