#pragma once

#include <cstdint>
#include <vector>

#include "compiler/partition/partition.hpp"
#include "compiler/placement/bucket.hpp"
#include "compiler/placement/stored_parameters.hpp"

namespace strata::host {

/// A trained bucket and its gradients, accumulated over the micro-batches of a step.
struct GradientBucket {
  Bucket bucket;
  /// Gradients of the whole bucket, or with Sharding::gradients and above of this rank's piece.
  PartialGradients gradients;
};

/// All trained buckets. The sharded buckets come first. Buckets of the other parameters follow in the order in which
/// the backward pass completes their gradients. For the latter, makes flat gradient buffers and turns the accumulators
/// into views of them. `bytes`: largest size of a bucket's gradients, unless one parameter exceeds it.
[[nodiscard]] std::vector<GradientBucket> make_gradient_buckets(ProgramBuilder& builder,
                                                                const StoredParameters& parameters,
                                                                const PartitionResult& partitioned, std::int64_t bytes);

}  // namespace strata::host
