#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/check/program_check.hpp"
#include "compiler/compile.hpp"
#include "log/training_record.hpp"
#include "runtime/executor.hpp"
#include "setup/run_setup.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// The programs of a run: the training step and, if the run evaluates, a forward pass that uses the same parameters in
/// the same memory.
struct TrainingPrograms {
  Compiled training;
  std::optional<Compiled> evaluation;

  /// Size of each rank's arena in bytes.
  [[nodiscard]] std::vector<std::int64_t> planned_peak_bytes() const;
  /// Bytes of each rank outside of its device.
  [[nodiscard]] std::vector<OffloadBytes> planned_offload() const;
};

/// `device`: answers which ops are supported. Null: every op is supported.
/// `evaluation_batches`: batches of one evaluation.
[[nodiscard]] TrainingPrograms compile_training(const RunSetup& setup, const DimSizes& sizes, const Device* device,
                                                std::int64_t evaluation_batches = 1);

/// Compiles the evaluation pass beside a training step. `request`: that of the step.
[[nodiscard]] Compiled compile_evaluation(const RunSetup& setup, CompileRequest request, const Compiled& training,
                                          std::int64_t batches = 1);

/// The programs of all ranks, for the checker.
[[nodiscard]] RankPrograms rank_programs(const Compiled& compiled);

/// Why the run cannot work although it compiles: mismatched or deadlocking communication, or more memory than a rank's
/// device has. Empty if no fault was found.
[[nodiscard]] std::optional<std::string> find_fault(const TrainingPrograms& programs, const CommunicatorLimits& limits,
                                                    std::int64_t device_bytes);

/// True if training goes on while checkpoints are written. A run that writes only the last one has nothing to go on
/// with.
[[nodiscard]] bool copies_whole(CheckpointMode mode, std::int64_t every);

/// Why the ranks' host memory for writing checkpoints, `copy_bytes`, cannot be had beside their programs. Empty if it
/// can, or if that is not known: only a device in host memory says how much there is.
[[nodiscard]] std::optional<std::string> find_copy_fault(const std::vector<std::int64_t>& planned_peak_bytes,
                                                         const std::vector<std::int64_t>& copy_bytes,
                                                         const Device& device, std::int64_t device_bytes);

/// Settings that are valid but probably unintended: strategies without effect or that could not do something for an op,
/// and ops that run their reference kernel on a device that looks for fast kernels. One sentence each.
[[nodiscard]] std::vector<std::string> find_remarks(const TrainingPrograms& programs, const Device& device);

/// The norms of log.norm_groups after a step of the program. `reports`: of that step. `replicas`: how many train apart
/// (Stack::unsynchronized). The norms are then root mean squares over them.
[[nodiscard]] std::vector<GroupNorm> read_group_norms(Executor& executor, const NormGroupIndex& groups,
                                                      const Reports& reports, double loss_scale, int replicas);

}  // namespace strata::host
