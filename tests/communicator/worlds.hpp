#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "communicator/stream_device.hpp"
#include "strata/communicator.hpp"

namespace strata::testing {

/// The communicator and device of a test: the local communicator on a device without streams or with streams, or nccl
/// on a device with streams.
enum class DeviceKind : std::uint8_t { host, streams, nccl };

/// The name of a kind: "host", "streams" or "nccl".
std::string to_string(DeviceKind kind);

/// A world of ranks that are threads.
std::unique_ptr<World> make_world(DeviceKind kind, int count, double timeout);

inline std::unique_ptr<HostDevice> make_device(DeviceKind kind) {
  if (kind == DeviceKind::host) return std::make_unique<HostDevice>();
  return std::make_unique<StreamDevice>();
}

}  // namespace strata::testing
