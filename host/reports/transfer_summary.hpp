#pragma once

#include <cstdint>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// All transfers of one rank in one step between two places, in one direction.
struct TransferSummary {
  MemoryPlace from = MemoryPlace::device;
  MemoryPlace to = MemoryPlace::device;
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

/// The transfers of a rank in one step, over the whole schedule, sorted by places.
[[nodiscard]] std::vector<TransferSummary> summarize_transfers(const Program& program);

}  // namespace strata::host
