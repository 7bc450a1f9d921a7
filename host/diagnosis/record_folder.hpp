#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/flight_record.hpp"

namespace strata::host {

/// The JSON of a rank's record, which `strata diagnose` reads.
[[nodiscard]] std::string to_json_text(const FlightRecord& record);

/// Reads such JSON, from a file that anyone may have written. \throws RuntimeError, without a path, that says what is
/// wrong.
[[nodiscard]] FlightRecord parse_record(std::string_view text);

/// Name of the folder of records in a run's output folder.
inline constexpr const char* kDiagnosisName = "diagnosis";
/// Name of the file in it that asks all processes of the run for their records. It holds the reason.
inline constexpr const char* kRequestName = "request";

/// "rank-00003.json".
[[nodiscard]] std::string record_name(int rank);

/// Moves the records of an earlier start of the run to `diagnosis.1`, and those before to `diagnosis.2` and
/// `diagnosis.3`. \throws RuntimeError if that fails.
void archive_records(const std::filesystem::path& output);

/// The folder of records that the processes of a run share.
class RecordFolder {
 public:
  /// Requests that the folder already has do not count.
  explicit RecordFolder(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a rank's record. Readers see the old or the new one. \throws RuntimeError if that fails.
  void write(const FlightRecord& record) const;
  /// The record of `rank`, if it can be read and was written at most `age` before that of `reference`.
  [[nodiscard]] std::optional<FlightRecord> read_recent(int rank, int reference, std::chrono::seconds age) const;
  /// Asks the other processes for their records, unless one of them has just asked. \throws RuntimeError if that fails.
  void request(const std::string& reason);
  /// True if another process has asked since the last call.
  [[nodiscard]] bool is_requested();

 private:
  /// Tells one file from the next of the same name. Zero if there is none.
  using Mark = std::pair<std::uint64_t, std::int64_t>;
  [[nodiscard]] Mark mark() const;

  std::filesystem::path path_;
  Mark seen_;
};

}  // namespace strata::host
