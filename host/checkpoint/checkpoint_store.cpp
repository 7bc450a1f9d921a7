#include "checkpoint/checkpoint_store.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <limits>
#include <sstream>
#include <tuple>

#include "checkpoint/checkpoint_names.hpp"
#include "files/file_io.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// Bytes that a checkpoint needs in addition to its tensors.
constexpr std::uint64_t kSpareBytes = 1U << 20U;
/// Ends the name of a complete checkpoint that is about to replace one of the same step.
constexpr std::string_view kReplacement = ".new";

void rename_or_fail(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  throw RuntimeError("'" + to.string() + "': cannot be put in place: " + std::strerror(errno));
}

/// Removes a checkpoint. It loses its final name first, so that an interrupted removal leaves no half of one.
void remove_checkpoint(const fs::path& path) {
  const fs::path doomed = path.string() + std::string(kTemporaryMark) + "old";
  std::error_code failure;
  fs::remove_all(doomed, failure);
  fs::rename(path, doomed, failure);
  if (!failure) fs::remove_all(doomed, failure);
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kManifestName, ignored);
}

/// Bytes of the files below `folder`, which other processes may be writing, and which no other folder shares.
std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code ignored;
    const std::uintmax_t size = entry->file_size(ignored);
    const bool is_shared = entry->hard_link_count(ignored) > 1;
    if (!ignored && !is_shared) bytes += size;
  }
  return bytes;
}

/// The checkpoint named by `latest`, or else the one with the most steps. Empty if there is none.
fs::path last_checkpoint(const fs::path& directory) {
  std::string name;
  std::istringstream(read_small_file(directory / kLatestName, 4096)) >> name;
  if (step_of_checkpoint(name) && is_checkpoint(directory / name)) return directory / name;
  fs::path last;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const auto step = step_of_checkpoint(entry.path());
    if (step && is_checkpoint(entry.path()) && (last.empty() || *step > *step_of_checkpoint(last))) last = entry.path();
  }
  return last;
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "step-%08" PRIu64, step);
  return name.data();
}

std::optional<std::uint64_t> step_of_checkpoint(const fs::path& directory) {
  const std::string name = directory.filename().string();
  constexpr std::string_view kPrefix = "step-";
  std::uint64_t step = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  if (error != std::errc{} || (!suffix.empty() && suffix != kReplacement)) return std::nullopt;
  return step;
}

fs::path CheckpointStore::path_of(std::uint64_t step) const { return directory_ / checkpoint_name(step); }

std::vector<CheckpointStore::Found> CheckpointStore::checkpoints_up_to(std::uint64_t step) const {
  std::error_code ignored;
  std::vector<Found> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    const auto of = step_of_checkpoint(entry.path());
    if (of && *of <= step) found.push_back({*of, entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return std::tie(a.step, a.path) < std::tie(b.step, b.path); });
  return found;
}

std::vector<fs::path> CheckpointStore::paths_up_to(std::uint64_t step) const {
  std::vector<fs::path> paths;
  for (const Found& each : checkpoints_up_to(step)) paths.insert(paths.begin(), each.path);
  return paths;
}

void CheckpointStore::prepare(std::uint64_t bytes, const CheckpointsToCome& coming) const {
  make_directories(directory_, disk_);
  settle();
  clean(0);
  std::uint64_t shared = has_links() ? coming.shared_bytes : 0;
  if (!coming.base.empty() && can_link(coming.base / kManifestName)) bytes -= std::exchange(shared, 0);
  std::uint64_t more = coming.count;
  if (keep_ > 0) {
    // One checkpoint more than `keep` exists while the next one is written.
    const auto most = static_cast<std::uint64_t>(keep_) + 1;
    const std::uint64_t held = checkpoints_up_to(coming.first_step).size();
    more = std::min(more, most - std::min(most, held));
  }
  require_space(bytes, {.count = std::max<std::uint64_t>(1, more), .shared_bytes = shared},
                disk_.free_bytes(directory_));
}

bool CheckpointStore::has_links() const {
  const fs::path probe = directory_ / ".probe";
  OutputFile(probe, disk_).finish();
  const bool links = can_link(probe);
  std::error_code ignored;
  fs::remove(probe, ignored);
  return links;
}

bool CheckpointStore::can_link(const fs::path& existing) const {
  const fs::path second = directory_ / ".probe-link";
  std::error_code ignored;
  fs::remove(second, ignored);
  const bool links = disk_.link(existing, second) == 0;
  fs::remove(second, ignored);
  return links;
}

void CheckpointStore::require_space(std::uint64_t bytes, const fs::path& temporary) const {
  const std::uint64_t available = disk_.free_bytes(directory_);
  // Other ranks may have begun. Bytes that they write from here on are counted twice, so nothing that fits is refused.
  require_space(bytes, {}, available + bytes_in(temporary));
}

void CheckpointStore::require_space(std::uint64_t bytes, const CheckpointsToCome& coming,
                                    std::uint64_t available) const {
  const std::uint64_t count = coming.count;
  std::uint64_t needed = 0;
  if (__builtin_mul_overflow(count, bytes - coming.shared_bytes + kSpareBytes, &needed) ||
      __builtin_add_overflow(needed, coming.shared_bytes, &needed)) {
    needed = std::numeric_limits<std::uint64_t>::max();
  }
  if (available >= needed) return;
  const std::string what = count == 1
                               ? "a checkpoint needs "
                               : std::to_string(count) + " checkpoints, which will exist at once" +
                                     (keep_ > 0 ? " while one is written" : " (run.keep_checkpoints = 0)") + ", need ";
  throw RuntimeError("'" + directory_.string() + "': " + what + std::to_string(needed) + " bytes, but " +
                     std::to_string(available) + " are free");
}

void CheckpointStore::put_in_place(const fs::path& temporary, std::uint64_t step) const {
  const fs::path path = path_of(step);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) {
      throw RuntimeError("'" + path.string() + "': cannot be put in place: " + std::strerror(errno));
    }
    if (disk_.exchange(temporary, path) != 0) {
      // The file system cannot exchange two names. Both checkpoints get final names before the old one loses its own.
      settle();
      rename_or_fail(temporary, path.string() + std::string(kReplacement));
      sync_directory(directory_, disk_);
      settle();
    }
  }
  sync_directory(directory_, disk_);
}

std::optional<std::string> CheckpointStore::set_latest(const fs::path& checkpoint) const {
  const fs::path latest = directory_ / kLatestName;
  std::optional<std::string> warning;
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(latest, ignored))) {
    fs::path moved;
    for (int number = 1; moved.empty() || fs::exists(fs::symlink_status(moved, ignored)); ++number) {
      moved = latest.string() + ".moved-" + std::to_string(number);
    }
    rename_or_fail(latest, moved);
    warning = "'" + latest.string() +
              "' was a folder, where the file with the newest checkpoint's name belongs; it is '" +
              moved.filename().string() + "' now";
  }
  replace_file(latest, checkpoint.filename().string() + "\n", disk_);
  return warning;
}

void CheckpointStore::settle() const {
  for (const Found& each : checkpoints_up_to(UINT64_MAX)) {
    const fs::path path = path_of(each.step);
    if (each.path == path || !each.path.string().ends_with(kReplacement)) continue;
    remove_checkpoint(path);
    rename_or_fail(each.path, path);
    sync_directory(directory_, disk_);
  }
}

void CheckpointStore::clean(std::uint64_t step) const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    std::error_code failure;
    if (entry.path().filename().string().find(kTemporaryMark) != std::string::npos) fs::remove_all(entry, failure);
  }
  std::vector<Found> found = checkpoints_up_to(step);
  if (keep_ <= 0 || found.size() <= static_cast<std::size_t>(keep_)) return;
  found.resize(found.size() - static_cast<std::size_t>(keep_));
  for (const Found& each : found) remove_checkpoint(each.path);
}

fs::path find_checkpoint(const fs::path& given) {
  if (is_checkpoint(given)) return given;
  for (const fs::path& directory : {given, given / "checkpoints"}) {
    if (const fs::path found = last_checkpoint(directory); !found.empty()) return found;
  }
  std::error_code ignored;
  if (!fs::exists(given, ignored)) throw ConfigurationError("'" + given.string() + "': there is no such checkpoint");
  if (fs::exists(given / "config.json", ignored)) {
    throw ConfigurationError("'" + given.string() +
                             "': found a model of Hugging Face, with a config.json; accepted: a " +
                             "checkpoint, which `strata import FOLDER CHECKPOINT` makes of it");
  }
  throw ConfigurationError("'" + given.string() + "': there is no checkpoint; expected a folder with a " +
                           kManifestName + ", or the output folder of a run that has written one");
}

std::string describe_newest(const fs::path& directory) {
  const fs::path found = last_checkpoint(directory);
  return found.empty() ? "there is no complete checkpoint" : "the newest complete checkpoint is " + found.string();
}

}  // namespace strata::host
