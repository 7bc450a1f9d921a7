#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "setup/agreement.hpp"

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

}  // namespace strata::host
