#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {

/// The source position of a setting: line and column in a file, or an argument of the command line.
struct Place {
  /// The file's name, or the whole argument ("--set model.layers=2").
  std::string source;
  /// Counted from 1. 0 refers to the whole source.
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  /// The place as text: "quickstart.toml:12:8", "--set model.layers=2".
  [[nodiscard]] std::string text() const;
};

/// An error with the message "PLACE: KEY: MESSAGE", which is the form of all messages about the configuration.
ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message);

/// The source positions of keys and values, by path ("batch.global", "strategy.0.size").
class ConfigurationPlaces {
 public:
  explicit ConfigurationPlaces(std::string source = "") : source_(std::move(source)) {}

  void add(const std::string& path, const Place& key, const Place& value) { places_[path] = {key, value}; }
  /// Position of the value. If the key is absent, the position of the enclosing section or of the whole source.
  [[nodiscard]] Place value(const std::string& path) const;
  /// Position of the key, with the same fallback.
  [[nodiscard]] Place key(const std::string& path) const;

  /// All are equal: configurations that differ in the places of their keys only are equal.
  bool operator==(const ConfigurationPlaces&) const { return true; }

 private:
  struct Entry {
    Place key;
    Place value;
  };

  [[nodiscard]] const Entry* nearest_entry(std::string path) const;

  std::string source_;
  std::map<std::string, Entry> places_;
};

}  // namespace strata::host
