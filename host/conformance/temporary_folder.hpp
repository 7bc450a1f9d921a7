#pragma once

#include <filesystem>

namespace strata::host {

/// A folder for the files of one check, removed at the end.
class TemporaryFolder {
 public:
  /// \throws RuntimeError if it cannot be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace strata::host
