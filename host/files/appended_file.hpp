#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "files/descriptor.hpp"

namespace strata::host {

/// A file to which records are appended. It contains whole records only, except for the last one after a crash. If
/// another program moves the file away, the next record makes a new one at its path. If another program empties the
/// file, records begin anew.
class AppendedFile {
 public:
  /// `label`: the beginning of messages about the file, such as "--log-json 'run.jsonl'". `waits`: if the file is a
  /// pipe, whether to wait for its reader. Otherwise records that the pipe cannot take at once are missing.
  AppendedFile(std::filesystem::path path, std::string label, bool waits = true)
      : path_(std::move(path)), label_(std::move(label)), waits_(waits) {}
  /// Removes a file that it has made and that has no record.
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// Opens the file, or opens it again, and locks it. \return false, with a failure(), if that is impossible, or if
  /// another run appends to the file.
  bool open();
  /// Removes all records.
  void clear();
  /// Writes a record at once. Tries again to open the file if that has failed. If that fails, such as on a full disk,
  /// the part that was written is removed again. \return true if the file has the record.
  bool append(std::string_view record);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Why the last record that is missing could not be written. Empty if none is missing.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

 private:
  bool fail(const std::string& what, int error);

  std::filesystem::path path_;
  std::string label_;
  bool waits_;
  Descriptor file_;
  /// True if it has made the file.
  bool is_new_ = false;
  std::optional<std::string> failure_;
};

}  // namespace strata::host
