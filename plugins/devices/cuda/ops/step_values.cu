#include "language/launch.hpp"
#include "ops/step_values.hpp"

namespace strata::cuda {
namespace {

/// The values come with the launch: no memory of the host has to stay as it is until they are there.
__global__ void store_step_values(StepValues values, StepValues* to) { *to = values; }

}  // namespace

void launch_store_step_values(Stream stream, const StepValues& values, StepValues* to) {
  launch(store_step_values, {{1}, {1}}, stream, values, to);
}

}  // namespace strata::cuda
