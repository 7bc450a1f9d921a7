#include "diagnosis/record_folder.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdio>

#include "diagnosis/record_text.hpp"
#include "files/file_io.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr int kArchives = 3;

std::filesystem::path archive_path(const std::filesystem::path& output, int number) {
  const std::string name = kDiagnosisName;
  return output / (number == 0 ? name : name + "." + std::to_string(number));
}

}  // namespace

std::string record_name(int rank) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "rank-%05d.json", rank);
  return name.data();
}

void archive_records(const std::filesystem::path& output) {
  std::error_code error;
  if (!std::filesystem::is_directory(archive_path(output, 0), error)) return;
  std::filesystem::remove_all(archive_path(output, kArchives), error);
  for (int number = kArchives - 1; number >= 0 && !error; --number) {
    const std::filesystem::path path = archive_path(output, number);
    if (std::filesystem::exists(path)) std::filesystem::rename(path, archive_path(output, number + 1), error);
  }
  if (!error) return;
  throw RuntimeError("the records in '" + archive_path(output, 0).string() +
                     "' of an earlier start cannot be moved: " + error.message());
}

RecordFolder::RecordFolder(std::filesystem::path path) : path_(std::move(path)), seen_(mark()) {}

RecordFolder::Mark RecordFolder::mark() const {
  struct stat status {};
  if (::stat((path_ / kRequestName).c_str(), &status) != 0) return {};
  return {status.st_ino, std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void RecordFolder::write(const FlightRecord& record) const {
  std::filesystem::create_directories(path_);
  replace_file(path_ / record_name(record.rank), to_json_text(record));
}

std::optional<FlightRecord> RecordFolder::read_recent(int rank, int reference, std::chrono::seconds age) const {
  try {
    // The clock of the file system dates both, as those of hosts may differ.
    const std::filesystem::path path = path_ / record_name(rank);
    const auto written = std::filesystem::last_write_time(path);
    if (written + age < std::filesystem::last_write_time(path_ / record_name(reference))) return {};
    const MappedFile file(path);
    const auto bytes = file.bytes();
    return parse_record({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const std::exception&) {
    return {};
  }
}

void RecordFolder::request(const std::string& reason) {
  if (is_requested()) return;
  std::filesystem::create_directories(path_);
  replace_file(path_ / kRequestName, reason + "\n");
  seen_ = mark();
}

bool RecordFolder::is_requested() {
  const Mark found = mark();
  if (found == seen_) return false;
  seen_ = found;
  return found != Mark{};
}

}  // namespace strata::host
