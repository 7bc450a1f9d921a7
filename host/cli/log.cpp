#include "cli/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <mutex>
#include <shared_mutex>

#include "files/message_text.hpp"

namespace strata::host {

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
void Log::debug(const std::string& message) {
  implementation_->logger.debug(spdlog::string_view_t(message_text(message)));
}
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

}  // namespace strata::host
