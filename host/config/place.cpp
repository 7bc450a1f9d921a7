#include "config/place.hpp"

#include "files/message_text.hpp"

namespace strata::host {

std::string Place::text() const {
  if (line == 0) return source;
  return source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message) {
  const std::string text = place.text() + ": " + (key.empty() ? "" : key + ": ") + message;
  return ConfigurationError(message_text(text, kLongestErrorText));
}

const ConfigurationPlaces::Entry* ConfigurationPlaces::nearest_entry(std::string path) const {
  while (!path.empty()) {
    if (const auto found = places_.find(path); found != places_.end()) return &found->second;
    const std::size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return nullptr;
}

Place ConfigurationPlaces::value(const std::string& path) const {
  const Entry* entry = nearest_entry(path);
  return entry == nullptr ? Place{source_, 0, 0} : entry->value;
}

Place ConfigurationPlaces::key(const std::string& path) const {
  const Entry* entry = nearest_entry(path);
  return entry == nullptr ? Place{source_, 0, 0} : entry->key;
}

}  // namespace strata::host
