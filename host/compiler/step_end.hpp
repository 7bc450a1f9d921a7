#pragma once

#include <vector>

#include "compiler/buckets.hpp"
#include "compiler/compile.hpp"
#include "compiler/partition.hpp"
#include "compiler/program_builder.hpp"

namespace strata::host {

/// The optimizer's states by name, in the order in which its op takes them.
[[nodiscard]] std::vector<std::string> optimizer_states(const OptimizerSettings& optimizer);

/// Emits the prologue (accumulators to zero) and the epilogue of a training step: completes gradients (those that
/// `early` names have been completed in the backward pass), loss and count; global norm; clip; update. Reports "loss",
/// "count", "grad_norm".
void emit_training_step_end(ProgramBuilder& builder, const PartitionResult& partitioned,
                            const std::vector<Bucket>& buckets, const OptimizerSettings& optimizer,
                            bool gradients_are_complete);

/// The same for an evaluation pass: completes loss and count. Does nothing where there is no loss.
void emit_evaluation_end(ProgramBuilder& builder, const PartitionResult& partitioned);

/// The collectives that complete a bucket's gradients.
[[nodiscard]] std::vector<Instruction> complete_gradients(ProgramBuilder& builder, const Bucket& bucket);

}  // namespace strata::host
