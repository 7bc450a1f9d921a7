#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/program_check.hpp"
#include "train/run_setup.hpp"

namespace strata::host {

/// The programs of a run: the training step and, where the run evaluates, a forward pass that uses the same parameters
/// in the same memory.
struct TrainingPrograms {
  Compiled training;
  std::optional<Compiled> evaluation;

  /// What each rank's arena must hold, by rank.
  [[nodiscard]] std::vector<std::int64_t> planned_peak_bytes() const;
};

/// `device`: asked what it supports; null for anything.
[[nodiscard]] TrainingPrograms compile_training(const RunSetup& setup, std::int64_t vocab, const Device* device);

/// The programs of all ranks side by side.
[[nodiscard]] RankPrograms rank_programs(const Compiled& compiled);

}  // namespace strata::host
