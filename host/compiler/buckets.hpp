#pragma once

#include <string>
#include <vector>

#include "compiler/partition.hpp"
#include "compiler/program_builder.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Parameters whose values, gradients and optimizer states lie side by side in flat buffers: one collective and one
/// optimizer launch for all.
struct Bucket {
  /// Indices into Program::parameters, those with weight decay first.
  std::vector<std::size_t> parameters;
  std::int64_t elements = 0;
  /// The first this many elements are decayed.
  std::int64_t decay_elements = 0;
  /// Axes that shard every parameter of the bucket: the sum of squares is completed over them.
  AxisSet shard_axes;
  BufferId values = -1;
  std::vector<BufferId> states;
  /// Flat gradients, one for each set of axes over which contributions are partial.
  std::vector<std::pair<AxisSet, BufferId>> gradients;
};

/// Groups parameters that are alike (element type, shard axes, partial sets) in the order in which the backward pass
/// completes them, and makes their buffers views of the buckets' flat ones. `states` names the optimizer's states;
/// empty where nothing is trained.
[[nodiscard]] std::vector<Bucket> make_buckets(ProgramBuilder& builder, const PartitionResult& partitioned,
                                               const GradientBuckets& options, const std::vector<std::string>& states);

}  // namespace strata::host
