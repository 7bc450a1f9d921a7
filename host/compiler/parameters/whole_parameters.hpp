#pragma once

#include <vector>

#include "compiler/parameters/bucket_update.hpp"
#include "compiler/parameters/step_end.hpp"
#include "compiler/parameters/whole_exchange.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// A bucket and the instructions of its update.
struct PendingUpdate {
  const TrainedBucket* trained = nullptr;
  BucketInstructions made;
};

/// True if the whole parameters of two updates can be exchanged together: they have equal dimensions and storage, and
/// the same optimizer changes them alike.
[[nodiscard]] bool can_exchange_together(const ProgramBuilder& builder, const PendingUpdate& a, const PendingUpdate& b,
                                         const UpdateRequest& request);

/// Number of updates that are exchanged together.
[[nodiscard]] std::int64_t updates_per_exchange(ProgramBuilder& builder, const PendingUpdate& update);

/// Emits updates with functions on whole parameters. There are at most as many as are exchanged together; ranks without
/// a parameter compute on zeros.
void emit_together(ProgramBuilder& builder, const std::vector<PendingUpdate*>& updates, const UpdateRequest& request,
                   std::vector<Instruction>& instructions);

}  // namespace strata::host
