#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "log/training_record.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// How to repeat the steps after a checkpoint.
struct ReplaySettings {
  /// Steps to repeat.
  std::uint64_t steps = 1;
  /// How many times to run them, at least twice.
  int times = 2;
  /// Gets a checkpoint for each time. The process of rank 0 creates it, and removes it at the end. All processes see
  /// it.
  std::filesystem::path folder;
};

/// The results of repeated steps.
struct Replay {
  /// The steps as the first time computed them.
  std::vector<StepRecord> steps;
  /// The error that ended the first time, such as a loss that is not finite.
  std::optional<std::string> error;
  /// The first difference between the first time and another, bit for bit: a loss, a gradient norm, an error, or a
  /// tensor after the last step. Empty if there is none.
  std::optional<std::string> difference;
  /// The first rank of this process. Only the process of rank 0 knows steps and compares them.
  int first_rank = 0;
};

/// Runs the steps after `checkpoint` several times, each time from the checkpoint and on the same data, and compares
/// the results. A program is the same sequence of instructions each time, so a difference comes from the hardware or
/// from a kernel whose result depends on time. \throws ConfigurationError if the run has no such steps left.
[[nodiscard]] Replay replay(const RunSetup& setup, const DataSource& source, const CheckpointReader& checkpoint,
                            const ReplaySettings& settings);

/// Compares repeated steps with those that the run's log recorded. \return the first difference. Empty if there is
/// none. \throws ConfigurationError if the log cannot be read or lacks a step.
[[nodiscard]] std::optional<std::string> find_difference_from_log(const std::vector<StepRecord>& steps,
                                                                  const std::filesystem::path& log);

}  // namespace strata::host
