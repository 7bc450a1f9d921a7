#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "files/descriptor.hpp"

namespace strata::host {

/// The file of everything that one rank writes to its standard output and standard error, over all starts of the run.
/// A file that cannot be written costs lines, and a warning, but never the run. One that is moved away is made anew.
class RankLog {
 public:
  using Warn = std::function<void(const std::string& text)>;

  /// Opens the file `rank-00003.log` of `folder` for appending, and makes the folder if it is missing. `warn`: gets the
  /// first failure.
  RankLog(const std::filesystem::path& folder, int rank, Warn warn);

  void line(const std::string& text);
  /// A line "=== 2026-11-23 20:15:02 TEXT", as at the start and at the end of a process.
  void mark(const std::string& text);

 private:
  void open();
  void write(const std::string& text);
  void fail(const std::string& reason);

  std::filesystem::path path_;
  Warn warn_;
  Descriptor file_;
  bool has_warned_ = false;
  /// True if the last line in the file is only a part of one.
  bool is_torn_ = false;
  std::uint64_t lost_lines_ = 0;
};

}  // namespace strata::host
