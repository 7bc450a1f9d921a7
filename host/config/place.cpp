#include "config/place.hpp"

namespace strata::host {

std::string Place::text() const {
  if (line == 0) return source;
  return source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message) {
  return ConfigurationError(place.text() + ": " + (key.empty() ? "" : key + ": ") + message);
}

}  // namespace strata::host
