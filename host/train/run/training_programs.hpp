#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/check/program_check.hpp"
#include "compiler/compile.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {

/// The programs of a run: the training step and, where the run evaluates, a forward pass that uses the same parameters
/// in the same memory.
struct TrainingPrograms {
  Compiled training;
  std::optional<Compiled> evaluation;

  /// What each rank's arena must hold, by rank.
  [[nodiscard]] std::vector<std::int64_t> planned_peak_bytes() const;
  /// What each rank must have outside of its device, by rank.
  [[nodiscard]] std::vector<OffloadBytes> planned_offload() const;
};

/// `device`: asked what it supports; null for anything.
[[nodiscard]] TrainingPrograms compile_training(const RunSetup& setup, std::int64_t vocab, const Device* device);

/// The programs of all ranks side by side.
[[nodiscard]] RankPrograms rank_programs(const Compiled& compiled);

/// Why the run cannot work although it compiles: communication that does not match or would deadlock, or more memory
/// than a rank's device has. Empty if nothing is known against it.
[[nodiscard]] std::optional<std::string> find_fault(const TrainingPrograms& programs, const CommunicatorLimits& limits,
                                                    std::int64_t device_bytes);

}  // namespace strata::host
