#include "train/run/appended_file.hpp"

#include <cerrno>
#include <cstring>

namespace strata::host {

bool AppendedFile::open(std::ios::openmode mode) {
  stream_.close();
  stream_.clear();
  stream_.open(path_, mode | std::ios::binary);
  if (stream_) return true;
  failure_ = label_ + ": cannot be opened: " + std::strerror(errno);
  return false;
}

bool AppendedFile::append(std::string_view record) {
  if (!stream_.is_open() && !open(std::ios::app)) return false;
  std::error_code ignored;
  const std::uintmax_t begin = std::filesystem::file_size(path_, ignored);
  stream_ << record << std::flush;
  if (stream_) return true;
  failure_ = label_ + ": cannot be written: " + std::strerror(errno);
  drop_record(begin);
  return false;
}

void AppendedFile::drop_record(std::uintmax_t begin) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error)) return stream_.clear();
  stream_.close();
  std::filesystem::resize_file(path_, begin, error);
  stream_.clear();
  stream_.open(path_, std::ios::app | std::ios::binary);
}

}  // namespace strata::host
