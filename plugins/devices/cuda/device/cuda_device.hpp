#pragma once

#include <memory>

#include "strata/device.hpp"

namespace strata::cuda {

/// Makes the devices of ranks: each is a whole GPU, or a share of one.
class CudaDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override;
  void provide(Registration& registration, const Options& options) const override;
  [[nodiscard]] std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const override;
};

}  // namespace strata::cuda
