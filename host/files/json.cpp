#include "files/json.hpp"

#include <fmt/format.h>

#include "files/text_format.hpp"
#include "strata/data_file.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Bytes of a tokenizer.json. Those of vocabularies of 256 thousand tokens have 35 MB.
constexpr std::int64_t kLargestFile = std::int64_t{256} << 20U;
constexpr std::size_t kLongestValue = 80;
constexpr std::size_t kLongestReason = 1000;

std::string found_text(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongestValue) text = text.substr(0, kLongestValue) + "…";
  return text;
}

/// A key of a file may be as long as the file.
std::string short_key(const std::string& key) {
  const std::string text = found_text(key);
  return text.substr(1, text.size() - 2);
}

}  // namespace

JsonValue JsonValue::at(const std::string& key) const {
  if (!value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail("has no key '" + key + "', which is required");
  return child(*found, place_.empty() ? short_key(key) : place_ + "." + short_key(key));
}

std::optional<JsonValue> JsonValue::find(const std::string& key) const {
  if (!value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return at(key);
}

std::vector<std::string> JsonValue::keys() const {
  if (!value_->is_object()) refuse("an object");
  std::vector<std::string> keys;
  for (const auto& each : value_->items()) keys.push_back(each.key());
  return keys;
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::items() const {
  std::vector<std::pair<std::string, JsonValue>> items;
  for (const std::string& key : keys()) items.emplace_back(key, at(key));
  return items;
}

JsonValue JsonValue::child(const nlohmann::json& value, std::string place) const {
  JsonValue child(value);
  child.file_ = file_;
  child.place_ = std::move(place);
  return child;
}

JsonValue JsonValue::element(std::size_t index) const {
  if (index >= size()) fail(fmt::format("found {} elements; accepted: more than {}", size(), index));
  return child((*value_)[index], fmt::format("{}[{}]", place_, index));
}

std::vector<JsonValue> JsonValue::elements() const {
  std::vector<JsonValue> elements;
  for (std::size_t i = 0; i < size(); ++i) elements.push_back(element(i));
  return elements;
}

std::size_t JsonValue::size() const {
  if (!value_->is_array()) refuse("an array");
  return value_->size();
}

std::string JsonValue::string() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get<std::string>();
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

double JsonValue::number() const {
  if (!value_->is_number()) refuse("a number");
  return value_->get<double>();
}

std::int32_t JsonValue::token() const {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > static_cast<std::uint64_t>(kLargest)) {
    refuse("an integer from 0 to " + std::to_string(kLargest));
  }
  return value_->get<std::int32_t>();
}

std::string JsonValue::string_or(const std::string& key, const std::string& otherwise) const {
  const std::optional<JsonValue> value = find(key);
  return value ? value->string() : otherwise;
}

bool JsonValue::boolean_or(const std::string& key, bool otherwise) const {
  const std::optional<JsonValue> value = find(key);
  return value ? value->boolean() : otherwise;
}

void JsonValue::refuse(const std::string& accepted) const {
  fail("found " + found_text(*value_) + "; accepted: " + accepted);
}

void JsonValue::fail(const std::string& message) const {
  throw ConfigurationError((file_ == nullptr ? "" : "'" + file_->string() + "': ") +
                           message_text((place_.empty() ? "" : place_ + ": ") + message, kLongestReason));
}

std::string json_mistake(const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 3, column 7: …"
  const std::string what = error.what();
  const std::size_t after = what.find("] ");
  return message_text(after == std::string::npos ? what : what.substr(after + 2), kLongestReason);
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  const DataFile file(path);
  if (file.bytes() > kLargestFile) {
    throw ConfigurationError(
        fmt::format("'{}': found {} bytes; accepted: up to {}", path.string(), file.bytes(), kLargestFile));
  }
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, file.bytes(), text.data());
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw ConfigurationError("'" + path.string() + "' is no JSON: " + json_mistake(error));
  }
}

nlohmann::json parse_json_text(std::string_view text, const nlohmann::json::parser_callback_t& callback) {
  using Event = nlohmann::json::parse_event_t;
  const auto checked = [&](int depth, Event event, nlohmann::json& value) {
    if (depth >= kDeepestJson && (event == Event::object_start || event == Event::array_start)) {
      throw RuntimeError("has JSON that is nested deeper than " + std::to_string(kDeepestJson) + " levels");
    }
    return callback == nullptr || callback(depth, event, value);
  };
  return nlohmann::json::parse(text, checked, false);
}

void write_json(std::ostream& out, const nlohmann::ordered_json& document) {
  const std::string text = json_text(document, 2);
  // Control characters that JSON permits as they are, such as DEL, become \\u007f.
  const bool is_printable = message_text(text) == text;
  out << (is_printable ? text : document.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace)) << '\n';
}

}  // namespace strata::host
