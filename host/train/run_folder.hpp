#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"
#include "files/file_io.hpp"

namespace strata::host {

/// The value of run.resume that starts a run or continues it.
inline constexpr const char* kResumeAuto = "auto";
/// Name of the file in the output folder that holds the run's identity.
inline constexpr const char* kIdentityName = "run-id";

/// How a run starts, as the process of the first rank decides from the output folder.
struct StartDecision {
  /// The run's identity: 32 hexadecimal digits, random at the first start.
  std::string identity;
  /// Checkpoints to continue from, the newest first. Empty: the run starts anew.
  std::vector<std::filesystem::path> candidates;
  /// True if the checkpoints of the output folder are removed at the start.
  bool overwrites = false;
};

/// The identity of the run that was last started in an output folder. Empty if there was none.
[[nodiscard]] std::string stored_identity(const std::filesystem::path& output);

/// Decides by run.resume and the contents of run.output. `overwrite`: starts anew whatever they are. \throws
/// ConfigurationError if checkpoints would be lost or belong to another run, or if there is none to continue from.
[[nodiscard]] StartDecision decide_start(const RunConfiguration& configuration, bool overwrite);

/// Removes checkpoints if `decision` says so, and stores the identity. \throws RuntimeError if that fails.
void begin_run(const std::filesystem::path& output, const StartDecision& decision);

/// The output folder of a run while the run uses it. A run that is refused leaves no folder that it has made.
class RunOutput {
 public:
  /// Changes nothing. Called before the processes of a run have met, so that none has made the folder yet.
  explicit RunOutput(std::filesystem::path folder);
  /// Removes the folders that open() made, if the run has written nothing into them.
  ~RunOutput();
  RunOutput(const RunOutput&) = delete;
  RunOutput& operator=(const RunOutput&) = delete;

  /// Makes the folder if it is missing. `locks`: locks it, so that no other run writes to it. \throws RuntimeError if
  /// that fails, or if another run uses it.
  void open(bool locks);

  /// False if the file system has no locks, so that another run could write to the folder.
  [[nodiscard]] bool is_alone() const { return lock_ == nullptr || lock_->holds(); }

 private:
  std::filesystem::path folder_;
  /// The folders on the way to it that were missing, from the inside out.
  std::vector<std::filesystem::path> missing_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace strata::host
