#include "log/run_output.hpp"

#include <string>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = ".lock";

/// The folders on the way to `folder` that do not exist, from the inside out.
std::vector<fs::path> missing_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  fs::path each = fs::absolute(folder).lexically_normal();
  if (!each.has_filename()) each = each.parent_path();
  for (; each.has_relative_path() && !fs::exists(fs::symlink_status(each, error)); each = each.parent_path()) {
    missing.push_back(each);
  }
  return missing;
}

}  // namespace

RunOutput::RunOutput(fs::path folder) : folder_(std::move(folder)), missing_(missing_folders(folder_)) {}

void RunOutput::open(bool locks) {
  try {
    make_directories(folder_);
  } catch (const RuntimeError& error) {
    throw RuntimeError("run.output " + std::string(error.what()));
  }
  if (!locks) return;
  lock_ =
      std::make_unique<FileLock>(folder_ / kLockName, "run.output '" + folder_.string() + "' is in use by another run");
}

RunOutput::~RunOutput() {
  std::error_code ignored;
  if (missing_.empty()) return;
  int entries = 0;
  for (fs::directory_iterator each(folder_, ignored), end; each != end; each.increment(ignored)) ++entries;
  if (lock_ != nullptr && entries == 1) fs::remove(folder_ / kLockName, ignored);
  // Folders that hold something stay.
  for (const fs::path& each : missing_) fs::remove(each, ignored);
}

}  // namespace strata::host
