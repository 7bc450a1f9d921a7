#pragma once

#include <cstdint>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// All transfers of a rank in one step between the device and another place, in one direction.
struct TransferSummary {
  MemoryPlace from = MemoryPlace::device;
  MemoryPlace to = MemoryPlace::device;
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

/// What a rank transfers in one step, counted over the schedule; sorted by places.
[[nodiscard]] std::vector<TransferSummary> summarize_transfers(const Program& program);

}  // namespace strata::host
