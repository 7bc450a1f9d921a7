#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// A value of a JSON file, with its place for error messages.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, const std::filesystem::path& file, std::string place = "")
      : value_(&value), file_(&file), place_(std::move(place)) {}

  [[nodiscard]] const nlohmann::json& raw() const { return *value_; }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }

  /// The value of a key. \throws ConfigurationError if this is no object or has no such key.
  [[nodiscard]] JsonValue at(const std::string& key) const;
  /// The value of a key. Empty if the key is missing or null.
  [[nodiscard]] std::optional<JsonValue> find(const std::string& key) const;
  /// The keys of an object. \throws ConfigurationError if this is none.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// An element of an array.
  [[nodiscard]] JsonValue element(std::size_t index) const;
  /// Number of elements. \throws ConfigurationError if this is no array.
  [[nodiscard]] std::size_t size() const;

  [[nodiscard]] std::string string() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] double number() const;
  /// A token's number: an integer from 0 to 2^31 - 1.
  [[nodiscard]] std::int32_t token() const;
  [[nodiscard]] std::string string_or(const std::string& key, const std::string& otherwise) const;
  [[nodiscard]] bool boolean_or(const std::string& key, bool otherwise) const;

  /// "FILE: PLACE: found VALUE; accepted: …".
  [[noreturn]] void refuse(const std::string& accepted) const;
  /// "FILE: PLACE: MESSAGE".
  [[noreturn]] void fail(const std::string& message) const;

 private:
  const nlohmann::json* value_;
  const std::filesystem::path* file_;
  /// As in "model.merges[17]".
  std::string place_;
};

/// Parses a file. \throws ConfigurationError with line and column if it is no JSON.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& path);

}  // namespace strata::host
