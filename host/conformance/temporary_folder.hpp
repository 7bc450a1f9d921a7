#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "strata/error.hpp"

namespace strata::host {

/// A folder for the files of one check, removed at the end.
class TemporaryFolder {
 public:
  /// \throws RuntimeError if it cannot be made.
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "strata-check-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw RuntimeError("'" + name + "': the folder cannot be made");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace strata::host
