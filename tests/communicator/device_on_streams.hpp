#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "communicator/graph_device.hpp"

namespace strata::testing {

/// A device in host memory whose kernels are enqueued on streams and can be captured, as on a GPU.
class DeviceOnStreams final : public GraphDevice {
 public:
  explicit DeviceOnStreams(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return inner_->unsupported(instance);
  }
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& instance) const override {
    return inner_->workspace_bytes(instance);
  }
  [[nodiscard]] std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override {
    return inner_->kernel_choice(instance);
  }
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    return std::make_unique<EnqueuedKernel>(*this, inner_->prepare(instance));
  }
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override { return inner_->allocate(bytes); }

 private:
  void prepare_launch(const StepContext& step) override {
    enqueue(StreamKind::compute, [this, step] { step_ = step; });
  }

  class EnqueuedKernel final : public Kernel {
   public:
    EnqueuedKernel(DeviceOnStreams& device, std::unique_ptr<Kernel> inner)
        : device_(device), inner_(std::move(inner)) {}

    void launch(const KernelArguments& arguments) override {
      const bool captured = device_.stream(StreamKind::compute).capture() != nullptr;
      device_.enqueue(StreamKind::compute,
                      [this, captured, workspace = arguments.workspace, at = arguments.context,
                       operands = std::vector(arguments.operands.begin(), arguments.operands.end()),
                       results = std::vector(arguments.results.begin(), arguments.results.end())] {
                        StepContext context = captured ? device_.step_ : at;
                        context.micro_batch = at.micro_batch;
                        inner_->launch({operands, results, workspace, context});
                      });
    }

   private:
    DeviceOnStreams& device_;
    std::unique_ptr<Kernel> inner_;
  };

  std::unique_ptr<Device> inner_;
  /// The step that kernels of graphs read.
  StepContext step_;
};

}  // namespace strata::testing
