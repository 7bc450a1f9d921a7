#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/check/program_check.hpp"
#include "runtime/buffer_slice.hpp"
#include "runtime/tensor_part.hpp"
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
  /// In the program that it was found in.
  const StoredParameter* parameter = nullptr;
};

[[nodiscard]] std::vector<PersistentTensor> persistent_tensors(const Program& program);

/// A state's name in a checkpoint.
[[nodiscard]] std::string state_name(std::string_view state, const std::string& parameter);

/// A part of a logical tensor, the rank that writes it and where that has it.
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
};

/// Of the ranks that hold the same part of a tensor the first one writes it. Where programs store a tensor in different
/// ways, such as tied weights in other buckets on two pipeline stages, one of them writes all of it. \return tensors by
/// name. \throws VerificationError if the parts do not make up the tensor.
[[nodiscard]] std::vector<CheckpointTensor> plan_checkpoint(const RankPrograms& ranks);

/// Bytes of all tensors.
[[nodiscard]] std::uint64_t checkpoint_bytes(const std::vector<CheckpointTensor>& tensors);

}  // namespace strata::host
