#pragma once

#include <string>
#include <vector>

#include "compiler/program_check.hpp"
#include "strata/layout.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// \file
/// What a checkpoint holds, and which rank writes what. Computed from the programs alone, so that every rank comes to
/// the same plan without asking the others.

/// A tensor of one rank's program that outlives the run: a parameter ("wte") or a state of its optimizer
/// ("optimizer/first_moment/wte").
struct PersistentTensor {
  std::string name;
  BufferId buffer = -1;
  DType dtype = DType::f32;
  std::vector<ShardedDim> dims;
};

[[nodiscard]] std::vector<PersistentTensor> persistent_tensors(const Program& program);

/// What `rank` holds of a tensor, one map a dimension.
[[nodiscard]] std::vector<IndexMap> index_maps(const PersistentTensor& tensor, const Mesh& mesh, int rank);

/// The shape of a shard.
[[nodiscard]] Shape local_shape(const std::vector<IndexMap>& dims);

/// A part of a logical tensor and the rank that writes it.
struct CheckpointPiece {
  int rank = 0;
  BufferId buffer = -1;
  std::vector<IndexMap> dims;
};

struct CheckpointTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<CheckpointPiece> pieces;
};

/// Of the ranks that hold the same part of a tensor the first one writes it. \return tensors by name.
/// \throws VerificationError if the parts do not make up the tensor.
[[nodiscard]] std::vector<CheckpointTensor> plan_checkpoint(const RankPrograms& ranks);

/// Bytes of all tensors.
[[nodiscard]] std::uint64_t checkpoint_bytes(const std::vector<CheckpointTensor>& tensors);

}  // namespace strata::host
