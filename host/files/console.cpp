#include "files/console.hpp"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

constexpr std::size_t kMostPending = std::size_t{64} << 10U;
/// Bytes of the longest character.
constexpr std::size_t kLongestCharacter = 4;

/// Where the last character of `text` begins if bytes of it are missing, else the end.
std::size_t complete_part(const std::string& text) {
  for (std::size_t back = 1; back <= std::min(kLongestCharacter - 1, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t needed = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return needed > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace

struct Log::Implementation {
  explicit Implementation(std::ostream& stream)
      : logger("strata", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream, /*force_flush=*/true)) {}

  void tell(bool is_error, const std::string& text) {
    // Shared, so that a call that blocks keeps no other thread from telling.
    const std::shared_lock lock(mutex);
    if (listener) listener(is_error, text);
  }

  spdlog::logger logger;
  std::shared_mutex mutex;
  Listener listener;
};

const std::vector<std::string>& log_level_names() {
  static const std::vector<std::string> names = {"trace", "debug", "info", "warning", "error", "off"};
  return names;
}

Log::Log(std::ostream& stream, const std::string& level) : implementation_(std::make_unique<Implementation>(stream)) {
  implementation_->logger.set_pattern("%H:%M:%S %l: %v");
  set_level(level);
}

Log::~Log() = default;

void Log::set_listener(Listener listener) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->listener = std::move(listener);
}

void Log::set_level(const std::string& level) { implementation_->logger.set_level(spdlog::level::from_str(level)); }

// Messages are passed as text and not as format strings, so braces in them are printed as they are.
void Log::info(const std::string& message) {
  implementation_->logger.info(spdlog::string_view_t(message_text(message)));
}
void Log::warning(const std::string& message) {
  implementation_->logger.warn(spdlog::string_view_t(message_text(message)));
  implementation_->tell(false, message);
}
void Log::error(const std::string& message) {
  implementation_->logger.error(spdlog::string_view_t(message_text(message)));
  implementation_->tell(true, message);
}

void SafeOutput::Buffer::pass_on(bool with_incomplete) {
  const std::size_t end = with_incomplete || is_raw_ ? pending_.size() : complete_part(pending_);
  const std::string rest = pending_.substr(end);
  pending_.resize(end);
  target_ << (is_raw_ ? pending_ : message_text(pending_));
  pending_ = rest;
}

void SafeOutput::Buffer::leave_as_it_is() {
  pass_on(true);
  is_raw_ = true;
}

SafeOutput::Buffer::int_type SafeOutput::Buffer::overflow(int_type character) {
  const char byte = traits_type::to_char_type(character);
  return traits_type::eq_int_type(character, traits_type::eof()) || xsputn(&byte, 1) == 1
             ? traits_type::not_eof(character)
             : traits_type::eof();
}

std::streamsize SafeOutput::Buffer::xsputn(const char* text, std::streamsize count) {
  if (count == 0) return 0;
  pending_.append(text, static_cast<std::size_t>(count));
  // A terminal shows each line at once.
  if (pending_.back() == '\n' || pending_.size() > kMostPending) pass_on(false);
  return target_ ? count : 0;
}

int SafeOutput::Buffer::sync() {
  pass_on(false);
  if (target_.flush()) return 0;
  // Whoever goes on in spite of this may have given the target another file.
  target_.clear();
  return -1;
}

void print_error(std::ostream& messages, const std::string& text) {
  constexpr std::size_t kLongest = std::size_t{64} << 10U;
  messages << "error: " + message_text(text, kLongest) + "\n";
}

void Console::flush_results() {
  errno = 0;
  if (out.flush() || errno != EPIPE) return;
  log.warning("standard output was closed before the results were written");
  // What is still buffered goes nowhere.
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nothing, STDOUT_FILENO);
  ::close(nothing);
  out.clear();
}

}  // namespace strata::host
