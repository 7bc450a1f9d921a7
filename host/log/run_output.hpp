#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "files/file_io.hpp"

namespace strata::host {

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
