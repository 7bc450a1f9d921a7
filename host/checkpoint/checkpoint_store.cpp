#include "checkpoint/checkpoint_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <sstream>

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

/// The checkpoints in a folder, those of more steps last.
std::vector<fs::path> sorted_checkpoints(const fs::path& directory) {
  std::vector<std::pair<std::uint64_t, fs::path>> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const auto step = step_of_checkpoint(entry.path());
    if (step && entry.is_directory(ignored)) found.emplace_back(*step, entry.path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& each : found) paths.push_back(std::move(each.second));
  return paths;
}

/// The first one of checkpoints_in() that has a manifest. Empty if there is none.
fs::path last_checkpoint(const fs::path& directory) {
  const std::vector<fs::path> all = checkpoints_in(directory);
  const auto found = std::ranges::find_if(all, is_checkpoint);
  return found == all.end() ? fs::path{} : *found;
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) { return fmt::format("step-{:08}", step); }

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

std::vector<fs::path> CheckpointStore::paths_up_to(std::uint64_t step) const {
  std::vector<fs::path> paths = sorted_checkpoints(directory_);
  std::erase_if(paths, [&](const fs::path& each) { return step_of_checkpoint(each) > step; });
  return paths;
}

std::vector<fs::path> checkpoints_in(const fs::path& directory) {
  std::vector<fs::path> found = sorted_checkpoints(directory);
  std::ranges::reverse(found);
  std::string latest;
  std::istringstream(read_small_file(directory / kLatestName, 4096)) >> latest;
  const auto at = std::ranges::find_if(found, [&](const auto& each) { return each.filename() == latest; });
  if (at != found.end()) std::rotate(found.begin(), at, found.end());
  return found;
}

void remove_checkpoint(const fs::path& checkpoint, std::error_code& failure) {
  const fs::path doomed = checkpoint.string() + std::string(kTemporaryMark) + "old";
  fs::remove_all(doomed, failure);
  fs::rename(checkpoint, doomed, failure);
  if (!failure) fs::remove_all(doomed, failure);
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
    const std::uint64_t held = paths_up_to(coming.first_step).size();
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
  for (const fs::path& each : sorted_checkpoints(directory_)) {
    const fs::path path = path_of(*step_of_checkpoint(each));
    if (each == path || !each.string().ends_with(kReplacement)) continue;
    std::error_code ignored;
    remove_checkpoint(path, ignored);
    rename_or_fail(each, path);
    sync_directory(directory_, disk_);
  }
}

void CheckpointStore::clean(std::uint64_t step) const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    std::error_code failure;
    if (entry.path().filename().string().find(kTemporaryMark) != std::string::npos) fs::remove_all(entry, failure);
  }
  std::vector<fs::path> found = paths_up_to(step);
  if (keep_ <= 0 || found.size() <= static_cast<std::size_t>(keep_)) return;
  found.resize(found.size() - static_cast<std::size_t>(keep_));
  for (const fs::path& each : found) remove_checkpoint(each, ignored);
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
