#include "files/new_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "files/file_io.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// The path without a trailing slash, so that a name can follow.
fs::path named(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

}  // namespace

NewFolder::NewFolder(const fs::path& path)
    : path_(named(path)), temporary_(path_.string() + std::string(kTemporaryMark) + std::to_string(::getpid())) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path_, ignored);
  const bool is_free = !fs::exists(status) || (fs::is_directory(status) && fs::is_empty(path_, ignored));
  if (path_.empty() || !is_free) {
    throw ConfigurationError("'" + path_.string() + "': exists already; accepted: the name of a new folder");
  }
  make_directories(parent_of(path_));
  fs::remove_all(temporary_, ignored);
  make_directories(temporary_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void NewFolder::require_space(std::uint64_t bytes) const {
  const std::uint64_t available = system_disk().free_bytes(temporary_);
  if (available >= bytes) return;
  throw RuntimeError(fmt::format("'{}': needs {} bytes, but {} are free", path_.string(), bytes, available));
}

void NewFolder::write(const std::string& name, const std::string& text) const {
  OutputFile file(temporary_ / name);
  file.write(text.data(), text.size());
  file.finish();
}

void NewFolder::commit() {
  sync_directory(temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw RuntimeError("'" + path_.string() + "': cannot be put in place: " + std::strerror(errno));
  }
  temporary_.clear();
  sync_directory(parent_of(path_));
}

}  // namespace strata::host
