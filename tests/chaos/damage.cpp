#include "chaos/damage.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "checkpoint/checkpoint_store.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing::chaos {
namespace {

namespace fs = std::filesystem;
using host::test::read_file;

/// A file of the tests in a checkpoint that was damaged. It moves with the checkpoint.
constexpr const char* kMark = ".damaged";

void write_file(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void flip(const fs::path& path, std::uint64_t place, std::size_t most) {
  std::string bytes = read_file(path);
  const std::size_t count = std::min(bytes.size(), most);
  if (count == 0) return;
  bytes[place % count] = static_cast<char>(bytes[place % count] ^ (1 << (place / count % 7)));
  write_file(path, bytes);
}

/// `most`: a flipped bit is in the file's first bytes, this many.
void change_file(const fs::path& path, const Damage& damage, std::size_t most = SIZE_MAX) {
  switch (damage.change) {
    case Change::flip:
      return flip(path, damage.place, most);
    case Change::cut:
      return fs::resize_file(path, damage.place % std::max<std::uintmax_t>(fs::file_size(path), 1));
    case Change::emptied:
      return fs::resize_file(path, 0);
    case Change::torn:
      std::ofstream(path, std::ios::app) << R"({"step":41,"lo)";
      return;
    case Change::removed:
    case Change::pipe:
      fs::remove_all(path);
  }
  if (damage.change == Change::pipe) ::mkfifo(path.c_str(), 0600);
}

/// Bytes before the tensors of a safetensors file. Some of them mean nothing to a reader.
std::uint64_t header_bytes(const fs::path& path) {
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
  return sizeof length + length;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool is_named(const fs::path& path, const std::string& begin, const std::string& end) {
  const std::string name = path.filename().string();
  return name.starts_with(begin) && name.ends_with(end);
}

}  // namespace

RunFiles::RunFiles(fs::path output, fs::path log) : output_(std::move(output)), log_(std::move(log)) {}

std::vector<fs::path> RunFiles::folders() const {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_ / "checkpoints", ignored)) {
    if (host::step_of_checkpoint(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

bool RunFiles::apply(const Damage& damage) {
  if (damage.file == DamagedFile::log) {
    if (!fs::is_regular_file(log_)) return false;
    change_file(log_, damage);
    log_is_damaged_ = log_is_damaged_ || damage.change != Change::torn;
    return true;
  }
  if (damage.file == DamagedFile::latest || damage.file == DamagedFile::identity) {
    const bool is_identity = damage.file == DamagedFile::identity;
    const fs::path path = is_identity ? output_ / "run-id" : output_ / "checkpoints" / host::kLatestName;
    if (!fs::is_regular_file(path)) return false;
    if (is_identity && !identity_) identity_ = read_file(path);
    // The line's end is no part of the name, and may be missing.
    change_file(path, damage, fs::file_size(path) - 1);
    return true;
  }
  int left = damage.checkpoints;
  bool applied = false;
  for (const fs::path& checkpoint : folders()) {
    if (left-- == 0) break;
    applied = damage_checkpoint(checkpoint, damage) || applied;
  }
  return applied;
}

bool RunFiles::damage_checkpoint(const fs::path& checkpoint, const Damage& damage) const {
  if (damage.file == DamagedFile::folder) return fs::remove_all(checkpoint) > 0;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) {
    const bool wanted = damage.file == DamagedFile::manifest ? is_named(entry.path(), host::kManifestName, "")
                                                             : is_named(entry.path(), "rank-", ".safetensors");
    if (wanted && fs::is_regular_file(entry.path())) files.push_back(entry.path());
  }
  if (files.empty()) return false;
  std::sort(files.begin(), files.end());
  const fs::path& file = files[damage.place % files.size()];
  // No reader looks at some bits before the tensors.
  bool surely = true;
  if (damage.change == Change::flip && damage.file == DamagedFile::tensors) {
    const std::uintmax_t size = fs::file_size(file);
    surely = size > 0 && damage.place % size >= header_bytes(file);
  }
  change_file(file, damage);
  const fs::path mark = checkpoint / kMark;
  if (surely || !fs::exists(mark)) write_file(mark, surely ? "surely" : "perhaps");
  return true;
}

RunFiles::Checkpoints RunFiles::checkpoints() const {
  bool any = false;
  bool perhaps = false;
  for (const fs::path& checkpoint : folders()) {
    any = true;
    const std::string mark = read_file(checkpoint / kMark);
    if (mark.empty()) return Checkpoints::some_whole;
    perhaps = perhaps || mark == "perhaps";
  }
  if (!any) return Checkpoints::none;
  return perhaps ? Checkpoints::perhaps_none_whole : Checkpoints::none_whole;
}

void RunFiles::give_up_checkpoints() const {
  for (const fs::path& checkpoint : folders()) {
    if (fs::exists(checkpoint / kMark)) write_file(checkpoint / kMark, "surely");
  }
}

bool RunFiles::has_wrong_identity() const {
  const fs::path path = output_ / "run-id";
  return identity_ && (!fs::is_regular_file(path) || first_line(read_file(path)) != first_line(*identity_));
}

std::optional<fs::path> RunFiles::newest_whole() const {
  for (const fs::path& checkpoint : folders()) {
    if (!fs::exists(checkpoint / kMark)) return checkpoint;
  }
  return std::nullopt;
}

void RunFiles::restore_identity() {
  if (!identity_) return;
  fs::remove(output_ / "run-id");
  write_file(output_ / "run-id", *identity_);
  identity_.reset();
}

bool RunFiles::take_log_damage() { return std::exchange(log_is_damaged_, false); }

std::string RunFiles::leftovers(int keep) const {
  std::string text;
  const auto look = [&](const fs::path& folder, const auto& is_known) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      if (!is_known(entry.path())) text += entry.path().string() + "\n";
    }
  };
  look(output_, [&](const fs::path& path) {
    const std::string name = path.filename().string();
    const bool is_record = name == "diagnosis" || name.starts_with("diagnosis.");
    return name == "run-id" || name == ".lock" || name == "checkpoints" || name == "ranks" || is_record || path == log_;
  });
  look(log_.parent_path(),
       [](const fs::path& path) { return path.filename().string().find(".tmp") == std::string::npos; });
  look(output_ / "checkpoints", [](const fs::path& path) {
    return path.filename() == host::kLatestName || host::step_of_checkpoint(path).has_value();
  });
  const std::vector<fs::path> kept = folders();
  for (const fs::path& checkpoint : kept) {
    look(checkpoint, [](const fs::path& path) {
      return path.filename() == host::kManifestName || path.filename() == kMark ||
             is_named(path, "rank-", ".safetensors");
    });
  }
  if (keep > 0 && kept.size() > static_cast<std::size_t>(keep)) {
    text += std::to_string(kept.size()) + " checkpoints, but " + std::to_string(keep) + " are to be kept\n";
  }
  return text;
}

std::string RunFiles::list() const {
  std::string text;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(output_, ignored)) {
    text += entry.path().string();
    if (entry.is_regular_file(ignored)) text += "  " + std::to_string(entry.file_size(ignored)) + " bytes";
    text += "\n";
  }
  return text;
}

}  // namespace strata::testing::chaos
