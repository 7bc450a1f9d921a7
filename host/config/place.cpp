#include "config/place.hpp"

#include "files/message_text.hpp"

namespace strata::host {
namespace {

/// Bytes of a message. The longest that Strata writes by itself lists the options of a plugin.
constexpr std::size_t kLongestMessage = 4096;

}  // namespace

std::string Place::text() const {
  if (line == 0) return source;
  return source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message) {
  const std::string text = place.text() + ": " + (key.empty() ? "" : key + ": ") + message;
  return ConfigurationError(message_text(text, kLongestMessage));
}

}  // namespace strata::host
