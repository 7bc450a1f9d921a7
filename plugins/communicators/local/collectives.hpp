#pragma once

#include <vector>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::local {

/// One rank's part of a collective. The rank reads its peers' buffers and writes only its own.
struct CollectiveStage {
  Device& device;
  /// The calls of all ranks in group order.
  const std::vector<const CollectiveCall*>& calls;
  /// This rank's position in the group.
  int index = 0;
};

/// Number of stages of a collective. All ranks meet before each stage and after the last.
[[nodiscard]] int stage_count(CollectiveKind kind);

/// Enqueues stage number `stage` (from 0) of this rank on the communication stream.
void run_stage(const CollectiveStage& collective, int stage);

}  // namespace strata::local
