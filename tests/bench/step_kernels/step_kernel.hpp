#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::bench {

/// A kernel of a training step: an op of one size, with its least arithmetic and memory traffic.
struct StepKernel {
  /// Such as "linear_bias [8 1024 768] [768 3072] [3072] bf16".
  std::string label;
  OpInstance instance;
  /// Launches in a step.
  std::int64_t calls = 0;
  double flops = 0;
  double bytes = 0;
  /// For every result, the operand whose memory it reuses, or -1.
  std::vector<int> in_place;
};

[[nodiscard]] std::int64_t bytes_of(const OperandDescription& operand);

/// Describes the least work of `instance`: it reads its operands and writes its results once. Products do the
/// arithmetic that their op states.
[[nodiscard]] StepKernel describe_kernel(OpInstance instance, const OpRegistry& registry);

/// The kernels of a step on rank 0 in the order of the program. Each size appears once.
[[nodiscard]] std::vector<StepKernel> step_kernels(const Program& program, const OpRegistry& registry,
                                                   std::uint64_t seed);

}  // namespace strata::bench
