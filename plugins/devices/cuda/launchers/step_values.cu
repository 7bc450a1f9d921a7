#include "device/step_graph.hpp"
#include "language/launch.hpp"

namespace strata::cuda {
namespace {

/// The values are arguments of the launch, so no host memory has to stay unchanged until the kernel runs.
__global__ void store_step_values(StepValues values, StepValues* to) { *to = values; }

}  // namespace

void launch_store_step_values(Stream stream, const StepValues& values, StepValues* to) {
  launch(store_step_values, {{1}, {1}}, stream, values, to);
}

}  // namespace strata::cuda
