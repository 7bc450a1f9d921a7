#include "huggingface/config.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "files/file_io.hpp"
#include "files/json_text.hpp"
#include "files/message_text.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestConfig = std::size_t{16} << 20;

OptionValue scalar(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX)) {
    return value.get<std::int64_t>();
  }
  return value.get<double>();
}

template <class Is>
bool all_of(const json& list, Is is) {
  return std::all_of(list.begin(), list.end(), is);
}

void flatten(const std::string& path, const json& value, HuggingFaceFields& fields) {
  const auto within = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (value.is_null()) return fields.set_null(path);
  if (!value.is_structured()) return fields.set(path, scalar(value));
  if (value.is_array() && all_of(value, [](const json& each) { return each.is_number(); })) {
    return fields.set(path, value.get<std::vector<double>>());
  }
  if (value.is_array() && all_of(value, [](const json& each) { return each.is_string(); })) {
    return fields.set(path, value.get<std::vector<std::string>>());
  }
  std::size_t index = 0;
  for (const auto& each : value.items())
    flatten(within(value.is_array() ? std::to_string(index++) : each.key()), each.value(), fields);
}

json number_json(double value) {
  if (std::abs(value) < 1e15 && value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

json value_json(const std::optional<OptionValue>& value) {
  if (!value) return nullptr;
  if (const auto* numbers = std::get_if<std::vector<double>>(&*value)) {
    json list = json::array();
    for (const double each : *numbers) list.push_back(number_json(each));
    return list;
  }
  return std::visit([](const auto& exact) { return json(exact); }, *value);
}

/// The path of a field, such as "rope_scaling.factor", as keys of nested objects.
class FieldName {
 public:
  explicit FieldName(const std::string& path) {
    std::size_t begin = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
      objects_.push_back(path.substr(begin, dot - begin));
      begin = dot + 1;
    }
    key_ = path.substr(begin);
  }

  [[nodiscard]] const std::string& key() const { return key_; }

  /// The object within `root` that has the field, or null if it is missing.
  [[nodiscard]] json* find_object(json& root) const {
    json* at = &root;
    for (const std::string& name : objects_) {
      const auto next = at->is_object() ? at->find(name) : at->end();
      if (next == at->end()) return nullptr;
      at = &*next;
    }
    return at->is_object() ? at : nullptr;
  }

  /// The object within `root` that has the field. Creates missing objects, and replaces other values by them.
  [[nodiscard]] json& make_object(json& root) const {
    json* at = &root;
    for (const std::string& name : objects_) {
      at = &(*at)[name];
      if (!at->is_object()) *at = json::object();
    }
    return *at;
  }

 private:
  std::vector<std::string> objects_;
  std::string key_;
};

}  // namespace

HuggingFaceFields parse_huggingface_config(const std::string& text) {
  const json value = parse_json_text(text);
  if (!value.is_object()) throw ConfigurationError("is no JSON object; is it truncated?");
  HuggingFaceFields fields;
  flatten("", value, fields);
  return fields;
}

HuggingFaceFields read_huggingface_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kHuggingFaceConfig;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw ConfigurationError("'" + folder.string() + "': has no " + kHuggingFaceConfig +
                             "; accepted: a folder with a model of Hugging Face");
  }
  const MappedFile file(path);
  try {
    if (file.bytes().size() > kLargestConfig) {
      throw ConfigurationError("has " + std::to_string(file.bytes().size()) + " bytes; accepted: at most " +
                               std::to_string(kLargestConfig));
    }
    return parse_huggingface_config({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  } catch (const Error& error) {
    throw ConfigurationError("'" + path.string() + "': " + message_text(error.what(), 2000));
  }
}

std::string to_json(const HuggingFaceFields& fields) { return edit_json("{}", {}, fields); }

std::string edit_json(const std::string& text, const std::vector<std::string>& removed, const HuggingFaceFields& set) {
  json result = parse_json_text(text);
  for (const std::string& path : removed) {
    const FieldName name(path);
    json* const object = name.find_object(result);
    if (object != nullptr) object->erase(name.key());
  }
  for (const auto& [path, value] : set.values()) {
    const FieldName name(path);
    name.make_object(result)[name.key()] = value_json(value);
  }
  return json_text(result, 2) + "\n";
}

}  // namespace strata::host
