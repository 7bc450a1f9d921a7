#pragma once

#include <vector>

#include "compiler/parameters/gradient_buckets.hpp"
#include "compiler/placement/rank_class.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// The instructions that complete a bucket's gradients after the last micro-batch.
struct Completion {
  std::vector<Instruction> instructions;
  /// Completed gradients of this rank's piece, which the update sums. Empty on a rank that does not update.
  std::vector<BufferId> completed;
};

/// Plans the completion of a bucket: reduce-scatters whole gradients to the ranks' pieces, then all-reduces over the
/// remaining partial axes. With ParameterStorage::single_writer, ranks send their gradients to the writer instead.
/// `lasting`: a task other than the completing one reads the gradients.
[[nodiscard]] Completion plan_completion(ProgramBuilder& builder, const GradientBucket& bucket,
                                         const RankClass& rank_class, bool lasting);

}  // namespace strata::host
