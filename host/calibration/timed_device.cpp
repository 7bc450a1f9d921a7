#include "calibration/timed_device.hpp"

#include <chrono>
#include <sstream>
#include <utility>

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

/// Launches in a row on an asynchronous device.
constexpr int kLaunchesInRow = 16;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class TimedKernel final : public Kernel {
 public:
  TimedKernel(std::unique_ptr<Kernel> kernel, Device& device, std::vector<double>& times, int launches)
      : kernel_(std::move(kernel)), device_(device), times_(times), launches_(launches) {}

  void launch(const KernelArguments& arguments) override {
    if (launches_ > 1) return time_in_row(arguments);
    const Clock::time_point begin = Clock::now();
    kernel_->launch(arguments);
    times_.push_back(seconds_since(begin));
  }

 private:
  /// As a graph if the device has graphs: launches one by one take longer than most kernels of a GPU.
  void time_in_row(const KernelArguments& arguments) {
    kernel_->launch(arguments);
    const auto enqueue = [&] {
      for (int i = 0; i < launches_; ++i) kernel_->launch(arguments);
    };
    const std::unique_ptr<StepGraph> graph = device_.uncapturable() ? nullptr : device_.capture(enqueue);
    device_.synchronize(StreamKind::compute);
    const Clock::time_point begin = Clock::now();
    if (graph) {
      graph->launch(arguments.context);
    } else {
      enqueue();
    }
    device_.synchronize(StreamKind::compute);
    times_.push_back(seconds_since(begin) / launches_);
  }

  std::unique_ptr<Kernel> kernel_;
  Device& device_;
  std::vector<double>& times_;
  int launches_;
};

void describe_operands(std::ostream& text, const std::vector<OperandDescription>& operands) {
  for (const OperandDescription& operand : operands) {
    text << ' ' << to_string(operand.dtype);
    for (std::size_t i = 0; i < operand.shape.size(); ++i) text << ' ' << operand.dims[i] << '=' << operand.shape[i];
  }
}

}  // namespace

std::string kernel_key(const OpInstance& instance) {
  std::ostringstream text;
  text << instance.op << ' ' << to_string(instance.attributes) << (instance.accumulate ? " +=" : "");
  describe_operands(text, instance.operands);
  text << " ->";
  describe_operands(text, instance.results);
  return text.str();
}

TimedDevice::TimedDevice(std::shared_ptr<Device> inner)
    : ForwardingDevice(std::move(inner)), is_asynchronous_(this->inner().record(StreamKind::compute) != nullptr) {}

std::unique_ptr<Kernel> TimedDevice::prepare(const OpInstance& instance) {
  return std::make_unique<TimedKernel>(inner().prepare(instance), inner(), times_[kernel_key(instance)],
                                       is_asynchronous_ ? kLaunchesInRow : 1);
}

TimedDevice::Times TimedDevice::take_times() {
  Times taken;
  for (auto& [key, times] : times_) taken[key] = std::exchange(times, {});
  return taken;
}

}  // namespace strata::host
