#pragma once

#include <cstdint>
#include <vector>

#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Arguments of one Device::copy_rows call, in bytes. Offsets count from the beginning of the buffers.
struct RowCopy {
  std::int64_t destination_offset = 0;
  std::int64_t destination_pitch = 0;
  std::int64_t source_offset = 0;
  std::int64_t source_pitch = 0;
  std::int64_t width = 0;
  std::int64_t rows = 0;

  bool operator==(const RowCopy&) const = default;
};

/// The row copies of a slice, pack or unpack, for the rank at `index` of `count` ranks along the axis.
[[nodiscard]] std::vector<RowCopy> plan_copy(const Copy& description, DType dtype, int count, int index);

/// Enqueues `copies` on the compute stream.
void launch_copy(Device& device, const std::vector<RowCopy>& copies, std::byte* destination, const std::byte* source);

}  // namespace strata::host
