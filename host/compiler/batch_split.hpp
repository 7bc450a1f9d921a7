#pragma once

#include <cstdint>

namespace strata::host {

/// A global batch, cut into micro-batches.
struct BatchSplit {
  /// Of one micro-batch over all replicas.
  std::int64_t samples = 1;
  int micro_batches = 1;
};

/// `micro`: the samples of one micro-batch on one replica. \throws OptionError that names "global" or "micro" for
/// sizes that do not divide or cannot be counted.
[[nodiscard]] BatchSplit split_batch(std::int64_t global, std::int64_t micro, std::int64_t replicas);

}  // namespace strata::host
