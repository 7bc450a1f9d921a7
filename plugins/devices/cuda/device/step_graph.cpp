#include "device/step_graph.hpp"

#include <utility>

#include "device/runtime.hpp"

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

namespace {

class CudaStepGraph final : public StepGraph {
 public:
  CudaStepGraph(int gpu, std::shared_ptr<void> stream, std::shared_ptr<CurrentStep> current_step,
                std::shared_ptr<void> graph)
      : gpu_(gpu), stream_(std::move(stream)), current_step_(std::move(current_step)), graph_(std::move(graph)) {}

  void launch(const StepContext& step) override {
    runtime::use_gpu(gpu_);
    current_step_->set(step, stream_.get());
    runtime::launch_graph(graph_.get(), stream_.get());
  }

 private:
  int gpu_;
  std::shared_ptr<void> stream_;
  std::shared_ptr<CurrentStep> current_step_;
  std::shared_ptr<void> graph_;
};

/// Ends the capture also if an exception leaves its scope.
class Capture {
 public:
  Capture(Stream stream, CurrentStep& current_step) : stream_(stream), current_step_(current_step) {
    runtime::begin_capture(stream_);
    current_step_.begin_capture();
  }
  ~Capture() {
    current_step_.end_capture();
    if (!ended_) runtime::cancel_capture(stream_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::shared_ptr<void> end() {
    ended_ = true;
    return runtime::end_capture(stream_);
  }

 private:
  Stream stream_;
  CurrentStep& current_step_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<StepGraph> capture_step(int gpu, const std::shared_ptr<void>& stream,
                                        const std::shared_ptr<CurrentStep>& current_step,
                                        const std::function<void()>& enqueue) {
  runtime::use_gpu(gpu);
  Capture capture(stream.get(), *current_step);
  enqueue();
  return std::make_unique<CudaStepGraph>(gpu, stream, current_step, capture.end());
}

}  // namespace strata::cuda
