#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "data/data_source.hpp"
#include "runtime/executor.hpp"
#include "setup/agreement.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// The checkpoints that a run may continue from. The first rank offers the newest one that was not skipped, and every
/// process opens it. If one of them cannot, all skip it.
class ResumeChoice {
 public:
  /// `candidates`: the newest first. Only those of the process with the first rank count.
  explicit ResumeChoice(std::vector<std::filesystem::path> candidates) : candidates_(std::move(candidates)) {}

  /// Calls `begin` with the chosen checkpoint, or with null if there are no candidates. `begin` is called again with an
  /// older checkpoint if some rank's call throws DamagedCheckpoint. Collective: every rank calls it. \throws
  /// RuntimeError if no candidate can be read.
  void settle(Agreement& agreement, int rank, const std::function<void(const CheckpointReader*)>& begin);
  /// Why checkpoints were skipped, one sentence each. Known to the process with the first rank.
  [[nodiscard]] const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  /// The checkpoint that the first rank offers. Empty if there never was one.
  [[nodiscard]] std::string offer() const;
  /// Opens the checkpoint at `path`, once for all ranks of this process. \return why it cannot be read, or "".
  [[nodiscard]] std::string open(const std::string& path);

  std::vector<std::filesystem::path> candidates_;
  std::vector<std::string> skipped_;
  std::mutex mutex_;
  std::string tried_;
  std::string failure_;
  std::unique_ptr<const CheckpointReader> reader_;
};

/// Compares what a resumed run has in common with its checkpoint: vocabulary, seed, global batch, model and data.
/// \throws ConfigurationError that names both values, unless run.accept_changed accepts the difference.
void require_same_run(const RunSetup& setup, const DataSource& source, const CheckpointReader& checkpoint);

/// What a run with the checkpoints `plan` drops of its checkpoint: gradients that no update has applied yet. Empty if
/// it drops nothing.
[[nodiscard]] std::optional<std::string> find_dropped(const CheckpointReader& checkpoint, const CheckpointPlan& plan);

/// Restores the rank of `executor` from a checkpoint. Collective: the ranks meet after every tensor, because one that
/// reads much must not keep others waiting until their communication times out. If a rank fails, the others return, and
/// it throws when all have read what they need.
void restore_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement);

/// Sets the values of an initialised rank to those of a checkpoint, as CheckpointReader::restore_values() does.
/// Collective, as restore_together() is.
void restore_values_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement);

}  // namespace strata::host
