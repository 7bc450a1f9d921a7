#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/memory/memory_plan.hpp"

namespace strata::host {

/// What one step gave.
struct StepRecord {
  /// Steps done, this one included.
  std::uint64_t step = 0;
  /// Mean over the step's tokens, in nats.
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;
  double seconds = 0;
  /// Of those, how long this rank's computation waited for communication outside of graphs.
  double wait_seconds = 0;
  /// Where the loss is scaled: by how much.
  std::optional<double> loss_scale = {};
  /// The gradient was not finite: nothing was updated.
  bool skipped = false;
};

/// What one evaluation gave.
struct EvaluationRecord {
  std::uint64_t step = 0;
  double loss = 0;
  std::int64_t tokens = 0;
};

/// What a whole run gave.
struct TrainingSummary {
  /// Steps done, those before a resumption included.
  std::uint64_t step = 0;
  std::optional<double> loss;
  std::optional<double> evaluation_loss;
  /// Over the steps of this process but the first few.
  double median_tokens_per_second = 0;
  std::int64_t peak_resident_bytes = 0;
  /// By rank.
  std::vector<std::int64_t> planned_peak_bytes;
  std::vector<std::int64_t> arena_peak_bytes;
  /// Outside of the device, by rank.
  std::vector<OffloadBytes> planned_offload = {};
  std::vector<OffloadBytes> offload_peak = {};
};

/// The median of `values`, of which the first few are left out where enough remain; 0 for none.
[[nodiscard]] double steady_median(std::vector<double> values);

}  // namespace strata::host
