#include "device/cuda_kernel.hpp"
#include "launchers/convolution.hpp"

namespace strata::cuda {
namespace {

template <Pass pass>
PreparedKernel prepare(const OpInstance& op, const CudaEnvironment& environment) {
  if (takes_window_convolution(op, pass)) return prepare_window_convolution(op, pass, environment);
  return prepare_column_convolution(op, pass, environment);
}

/// Kernels count the elements of one image, and those of w, in 32 bits.
std::optional<std::string> unsupported_convolution(const OpInstance& op) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (const OperandDescription& each : {op.operands[0], op.operands[1], op.results[0]}) {
    const Shape& shape = each.shape;
    if (shape[1] * shape[2] * shape[3] > kMost) {
      return "[" + join(each.dims) + "] has more than 2^30 elements for each '" + each.dims[0] + "'";
    }
  }
  return std::nullopt;
}

template <Pass pass>
void add_pass(Registration& registration, const std::string& op) {
  add(registration, {op, "tt", "r", true, unsupported_convolution}, prepare<pass>);
}

}  // namespace

void register_convolution(Registration& registration) {
  add_pass<Pass::forward>(registration, "convolution");
  add_pass<Pass::input_gradient>(registration, "convolution_input_gradient");
  add_pass<Pass::weight_gradient>(registration, "convolution_weight_gradient");
}

}  // namespace strata::cuda
