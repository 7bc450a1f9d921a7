#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/op.hpp"
#include "strata/testing/op_example.hpp"
#include "verify/kernel_comparison.hpp"
#include "verify/op_gradients.hpp"

namespace strata::host {

/// An example with operands of one shape, if the op's kernels take real operands only and the op accepts them, as ops
/// on single elements do. Empty if the op needs an example of its own.
[[nodiscard]] std::optional<testing::OpExample> guess_example(const std::string& op, const OpRegistry& ops,
                                                              const KernelRegistry& kernels);

/// Compares the gradient of the op with finite differences in f64. `reference`: a device that runs reference kernels.
[[nodiscard]] std::vector<GradientCheck> check_example_gradients(const testing::OpExample& example,
                                                                 const OpRegistry& ops, Device& reference,
                                                                 std::uint64_t seed);

/// Compares the kernels that `device` has for the op with the reference kernels, in every real type that the device
/// takes.
[[nodiscard]] std::vector<KernelCheck> check_example_kernels(const testing::OpExample& example, const OpRegistry& ops,
                                                             const KernelRegistry& kernels,
                                                             const std::shared_ptr<Device>& device, std::uint64_t seed);

}  // namespace strata::host
