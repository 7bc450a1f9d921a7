#pragma once

#include <string>
#include <vector>

#include "setup/run_setup.hpp"
#include "verify/kernel_comparison.hpp"
#include "verify/op_gradients.hpp"
#include "verify/verification.hpp"

namespace strata::host {

/// Checks of all ops of a configuration.
struct OpVerification {
  std::vector<GradientCheck> gradients;
  std::vector<KernelCheck> kernels;
  /// Description of the device whose kernels were compared.
  std::string device;

  [[nodiscard]] bool holds() const;
};

/// Checks the gradient of every op in the configuration's graph against finite differences in f64. Then trains two
/// steps of the stack in the configured types and compares every kernel launch with the reference kernel. The model is
/// shrunk unless `options.full` is set. If `options.device` is empty, the configured device is used. \throws what
/// compiling or running throws.
[[nodiscard]] OpVerification verify_ops(const RunConfiguration& configuration, PluginRegistry& registry,
                                        const VerificationOptions& options);

}  // namespace strata::host
