#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/forwarding_device.hpp"

namespace strata::host {

/// What determines the time of a kernel: op, attributes, types and shapes.
[[nodiscard]] std::string kernel_key(const OpInstance& instance);

/// A device that times each launch of each kernel. On a device whose calls return when the work is done, a launch is
/// timed as it is, so caches hold what they hold in a step. On others the kernel is launched again some times in a
/// row, as a graph if the device has graphs.
class TimedDevice final : public ForwardingDevice {
 public:
  using Times = std::map<std::string, std::vector<double>>;

  explicit TimedDevice(std::shared_ptr<Device> inner);

  std::unique_ptr<Kernel> prepare(const OpInstance& instance) override;
  /// Seconds of all launches since the last call, by kernel_key().
  [[nodiscard]] Times take_times();

 private:
  Times times_;
  bool is_asynchronous_;
};

}  // namespace strata::host
