#include "launch/rank_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "files/file_io.hpp"

namespace strata::host {
namespace {

std::string current_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string file_name(int rank) { return fmt::format("rank-{:05}.log", rank); }

}  // namespace

RankLog::RankLog(const std::filesystem::path& folder, int rank, Warn warn)
    : path_(folder / file_name(rank)), warn_(std::move(warn)) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(error.message());
  open();
}

void RankLog::open() {
  file_ = Descriptor();
  if (is_link_to_file(path_)) return fail("it is a symbolic link");
  // A pipe at this path has no reader, and must not make the launcher wait for one.
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!file_.is_open()) fail(std::strerror(errno));
}

void RankLog::line(const std::string& text) {
  if (!file_.is_open() || is_moved(file_.number(), path_)) open();
  if (!file_.is_open()) {
    ++lost_lines_;
    return;
  }
  if (lost_lines_ > 0) {
    const std::uint64_t lost = lost_lines_;
    write(fmt::format("=== {} line(s) could not be written\n", lost));
    if (lost_lines_ > lost) {
      // The mark was lost too, and so is this line instead of it.
      return;
    }
    lost_lines_ = 0;
  }
  write(text + "\n");
}

void RankLog::mark(const std::string& text) { line("=== " + current_time() + " " + text); }

void RankLog::write(const std::string& text) {
  const std::string whole = (is_torn_ ? "\n" : "") + text;
  const ssize_t written = ::write(file_.number(), whole.data(), whole.size());
  if (written == static_cast<ssize_t>(whole.size())) {
    is_torn_ = false;
    return;
  }
  const int error = written < 0 ? errno : ENOSPC;
  is_torn_ = is_torn_ || written > 0;
  ++lost_lines_;
  fail(std::strerror(error));
}

void RankLog::fail(const std::string& reason) {
  if (has_warned_) return;
  has_warned_ = true;
  warn_("the output of a rank cannot be written to '" + path_.string() + "': " + reason +
        "; the run goes on, and the file misses lines");
}

}  // namespace strata::host
