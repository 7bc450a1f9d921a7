#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::host {

/// A value of a JSON file, with its place for error messages. Whatever reads JSON that anyone may have written asks it,
/// so that every error says the file, the key, what was found and what is accepted.
class JsonValue {
 public:
  /// A value whose errors begin with the key: the caller adds the file.
  explicit JsonValue(const nlohmann::json& value) : value_(&value) {}
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
  /// The keys of an object and their values. \throws ConfigurationError if this is none.
  [[nodiscard]] std::vector<std::pair<std::string, JsonValue>> items() const;
  /// An element of an array. \throws ConfigurationError if this is none, or a shorter one.
  [[nodiscard]] JsonValue element(std::size_t index) const;
  /// All elements of an array. \throws ConfigurationError if this is none.
  [[nodiscard]] std::vector<JsonValue> elements() const;
  /// Number of elements. \throws ConfigurationError if this is no array.
  [[nodiscard]] std::size_t size() const;

  [[nodiscard]] std::string string() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] double number() const;
  /// An integer that fits into `Integer`. Other numbers are refused, because converting them may overflow.
  template <class Integer>
  [[nodiscard]] Integer integer() const {
    using Limits = std::numeric_limits<Integer>;
    const bool fits = value_->is_number_unsigned()  ? std::in_range<Integer>(value_->get<std::uint64_t>())
                      : value_->is_number_integer() ? std::in_range<Integer>(value_->get<std::int64_t>())
                                                    : false;
    if (!fits) refuse("an integer from " + std::to_string(Limits::min()) + " to " + std::to_string(Limits::max()));
    return value_->get<Integer>();
  }
  /// A token's number: an integer from 0 to 2^31 - 1.
  [[nodiscard]] std::int32_t token() const;
  [[nodiscard]] std::string string_or(const std::string& key, const std::string& otherwise) const;
  [[nodiscard]] bool boolean_or(const std::string& key, bool otherwise) const;

  /// "FILE: PLACE: found VALUE; accepted: …".
  [[noreturn]] void refuse(const std::string& accepted) const;
  /// "FILE: PLACE: MESSAGE".
  [[noreturn]] void fail(const std::string& message) const;

 private:
  /// A value within this one.
  [[nodiscard]] JsonValue child(const nlohmann::json& value, std::string place) const;

  const nlohmann::json* value_;
  const std::filesystem::path* file_ = nullptr;
  /// As in "model.merges[17]".
  std::string place_;
};

/// What the library says about text that is no JSON, without its own numbers of errors.
[[nodiscard]] std::string json_mistake(const nlohmann::json::exception& error);

/// Parses a file. \throws ConfigurationError with line and column if it is no JSON.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& path);

/// Levels of objects and arrays that the JSON of a checkpoint may have. Manifests have 8.
inline constexpr int kDeepestJson = 32;

/// Parses JSON from a file that anyone may have written. `callback`: see nlohmann::json::parse(). \return a discarded
/// value if the text is no JSON. \throws RuntimeError, without a path, if values are nested deeper than kDeepestJson:
/// recursion over them overflows the stack.
[[nodiscard]] nlohmann::json parse_json_text(std::string_view text,
                                             const nlohmann::json::parser_callback_t& callback = nullptr);

/// The text of a value; with `indent`, a line for each value in it. Bytes that are not UTF-8, as names of files may
/// have, become U+FFFD: the library would throw.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Prints the result of a command. Text of a plugin or a file need not be UTF-8: its other bytes become U+FFFD.
void write_json(std::ostream& out, const nlohmann::ordered_json& document);

}  // namespace strata::host
