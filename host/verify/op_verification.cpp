#include "verify/op_verification.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "huggingface/initial_values.hpp"
#include "verify/random_inputs.hpp"

namespace strata::host {
namespace {

std::vector<GradientCheck> check_gradients_of(const RunSetup& setup) {
  const DimSizes sizes = setup.sizes_without_data();
  CompileRequest request = setup.request(GraphMode::training, sizes);
  request.float_type = DType::f64;
  const std::unique_ptr<Device> reference = setup.make_device(0, 1);
  RandomInputs inputs(setup.seed(), setup.inputs, sizes);
  return check_gradients(forward_graph(request), *setup.ops, *reference, inputs, setup.seed());
}

std::vector<KernelCheck> compare_kernels_of(const RunSetup& setup, int steps) {
  KernelComparisons comparisons;
  run_setup_stack(setup, setup.float_type, steps, [&](int rank) -> std::shared_ptr<Device> {
    return compare_kernels(setup.make_device(rank, setup.stack.mesh.rank_count()), *setup.kernels, comparisons);
  });
  return comparisons.checks();
}

}  // namespace

bool OpVerification::holds() const {
  return std::all_of(gradients.begin(), gradients.end(), [](const GradientCheck& each) { return each.holds(); }) &&
         std::all_of(kernels.begin(), kernels.end(), [](const KernelCheck& each) { return each.holds(); });
}

OpVerification verify_ops(const RunConfiguration& configuration, PluginRegistry& registry,
                          const VerificationOptions& options) {
  RunConfiguration wanted = configuration;
  if (!options.device.empty()) wanted.device = {configuration.device.path, options.device, {}};
  wanted.communicator = {configuration.communicator.path, "local", {}};
  if (!options.full) wanted = shrink(wanted, registry);
  const RunSetup stack = prepare_run(wanted, registry);
  RunConfiguration on_reference = wanted;
  on_reference.device = {configuration.device.path, "reference", {}};
  constexpr int kSteps = 2;
  return {check_gradients_of(prepare_run(on_reference, registry)), compare_kernels_of(stack, kSteps),
          stack.configuration.device.plugin};
}

}  // namespace strata::host
