#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace strata::host {

/// A file to which records are appended. It contains whole records only, except for the last one after a crash.
class AppendedFile {
 public:
  /// `label`: the beginning of messages about the file, such as "--log-json 'run.jsonl'".
  AppendedFile(std::filesystem::path path, std::string label) : path_(std::move(path)), label_(std::move(label)) {}

  /// Opens the file, or opens it again. `mode`: app or trunc. \return false, with a failure(), if that is impossible.
  bool open(std::ios::openmode mode);
  /// Writes a record at once. Tries again to open the file if that has failed. If that fails, such as on a full disk,
  /// the part that was written is removed again. \return true if the file has the record.
  bool append(std::string_view record);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Why the last record that is missing could not be written. Empty if none is missing.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

 private:
  /// Removes what was written of a record, and makes the stream usable again.
  void drop_record(std::uintmax_t begin);

  std::filesystem::path path_;
  std::string label_;
  std::ofstream stream_;
  std::optional<std::string> failure_;
};

}  // namespace strata::host
