#include "device/current_step.hpp"

#include "device/runtime.hpp"
#include "launchers/step_values.hpp"

namespace strata::cuda {
namespace {

StepValues values_of(const StepContext& context) {
  return {.step = context.step,
          .updates = static_cast<double>(context.step - context.skipped_steps + 1),
          .learning_rate = context.learning_rate,
          .weight_decay_factor = context.weight_decay_factor,
          .loss_scale = context.loss_scale};
}

}  // namespace

CurrentStep::CurrentStep() : memory_(runtime::allocate(sizeof(StepValues))) {}

const StepValues* CurrentStep::address() const { return static_cast<const StepValues*>(memory_.get()); }

void CurrentStep::set(const StepContext& step, Stream stream) {
  if (captures_) return;
  const StepValues values = values_of(step);
  if (stored_ == values) return;
  launch_store_step_values(stream, values, static_cast<StepValues*>(memory_.get()));
  stored_ = values;
}

}  // namespace strata::cuda
