#pragma once

#include <cstdint>
#include <vector>

#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Rows of bytes from one place to another, as Device::copy_rows takes them. Offsets are from the buffers' begin.
struct RowCopy {
  std::int64_t destination_offset = 0;
  std::int64_t destination_pitch = 0;
  std::int64_t source_offset = 0;
  std::int64_t source_pitch = 0;
  std::int64_t width = 0;
  std::int64_t rows = 0;

  bool operator==(const RowCopy&) const = default;
};

/// The copies of a slice, pack or unpack on the rank at `index` of the `count` ranks along the axis.
[[nodiscard]] std::vector<RowCopy> plan_copy(const CopyDescription& description, DType dtype, int count, int index);

/// Enqueues them on the compute stream.
void launch_copy(Device& device, const std::vector<RowCopy>& copies, std::byte* destination, const std::byte* source);

}  // namespace strata::host
