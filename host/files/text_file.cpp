#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "config/document.hpp"

namespace strata::host {
namespace {

/// Bytes of a configuration. The largest of configs/ has 2 KiB.
constexpr std::size_t kLargestText = std::size_t{4} << 20U;

/// A regular file or a pipe, as `strata check <(generate)` passes, to be read once. Errors do not name it.
class TextFile {
 public:
  /// Without O_NONBLOCK, opening a pipe waits for a writer.
  explicit TextFile(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) throw ConfigurationError(std::strerror(errno));
  }
  ~TextFile() { ::close(descriptor_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  [[nodiscard]] std::string read() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw ConfigurationError(std::strerror(errno));
    if (S_ISDIR(status.st_mode)) throw ConfigurationError("it is a folder");
    if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) {
      throw ConfigurationError("it is no regular file and no pipe");
    }
    std::string text;
    while (append(text)) {
      if (text.size() > kLargestText) {
        throw ConfigurationError("it is larger than a configuration; accepted: up to " + std::to_string(kLargestText) +
                                 " bytes");
      }
    }
    if (text.empty() && S_ISFIFO(status.st_mode))
      throw ConfigurationError("it is a pipe into which nobody has written");
    return text;
  }

 private:
  /// Appends some bytes. \return false at the end.
  bool append(std::string& text) const {
    std::array<char, 65536> bytes;
    while (true) {
      const ssize_t got = ::read(descriptor_, bytes.data(), bytes.size());
      if (got >= 0) {
        text.append(bytes.data(), static_cast<std::size_t>(got));
        return got > 0;
      }
      if (errno == EAGAIN) {
        pollfd waiting{descriptor_, POLLIN, 0};
        ::poll(&waiting, 1, -1);
      } else if (errno != EINTR) {
        throw ConfigurationError(std::strerror(errno));
      }
    }
  }

  int descriptor_;
};

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  try {
    return TextFile(path).read();
  } catch (const ConfigurationError& error) {
    throw error_at({path.string(), 0, 0}, "", std::string("cannot be read: ") + error.what());
  }
}

}  // namespace strata::host
