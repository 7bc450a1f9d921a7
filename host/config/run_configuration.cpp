#include "config/run_configuration.hpp"

#include <tuple>

namespace strata::host {

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

ConfigurationError RunConfiguration::error(const std::string& path, const std::string& message) const {
  return error_at(place(path), path, message);
}

bool RunConfiguration::operator==(const RunConfiguration& other) const {
  const auto members = [](const RunConfiguration& c) {
    return std::tie(c.run, c.model, c.model_from, c.data, c.batch, c.optimizer, c.health, c.log, c.device,
                    c.communicator, c.strategies, c.libraries);
  };
  return members(*this) == members(other);
}

}  // namespace strata::host
