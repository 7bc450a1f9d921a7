#pragma once

#include <vector>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::local {

/// A collective as one rank carries it out: it reads the peers' buffers and writes its own.
struct CollectiveStage {
  Device& device;
  /// The calls of all ranks, in group order.
  const std::vector<const CollectiveCall*>& calls;
  /// This rank's position among them.
  int index = 0;
};

/// Stages of work; all ranks meet before each and after the last.
[[nodiscard]] int stage_count(CollectiveKind kind);

/// Enqueues stage `stage` (from 0) of this rank on the communication stream.
void run_stage(const CollectiveStage& collective, int stage);

}  // namespace strata::local
