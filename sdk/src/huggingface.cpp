#include "strata/huggingface.hpp"

#include "strata/error.hpp"

namespace strata {
namespace {

[[noreturn]] void refuse_field(const std::string& field, const OptionValue* found, const std::string& accepted) {
  throw OptionError(field, (found == nullptr ? "missing" : "found " + to_string(*found)) + "; accepted: " + accepted);
}

/// The value of type T. An integer is a number too.
template <class T>
std::optional<T> value_as(const OptionValue& value) {
  if (const T* exact = std::get_if<T>(&value)) return *exact;
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  }
  return std::nullopt;
}

template <class T>
T value_of(const OptionValue* found, const std::string& field, const std::optional<T>& otherwise,
           const char* accepted) {
  if (found == nullptr && otherwise) return *otherwise;
  const std::optional<T> value = found == nullptr ? std::nullopt : value_as<T>(*found);
  if (!value) refuse_field(field, found, accepted);
  return *value;
}

}  // namespace

HuggingFaceFormat::~HuggingFaceFormat() = default;

std::vector<std::string> HuggingFaceFormat::families() const { return {}; }

const OptionValue* HuggingFaceFields::find(const std::string& field) const {
  const auto found = values_.find(field);
  return found == values_.end() || !found->second ? nullptr : &*found->second;
}

bool HuggingFaceFields::has_value(const std::string& field) const {
  if (find(field) != nullptr) return true;
  const auto within = values_.lower_bound(field + ".");
  return within != values_.end() && within->first.starts_with(field + ".");
}

std::int64_t HuggingFaceFields::integer(const std::string& field, std::optional<std::int64_t> otherwise) const {
  return value_of<std::int64_t>(find(field), field, otherwise, "an integer");
}

double HuggingFaceFields::number(const std::string& field, std::optional<double> otherwise) const {
  return value_of<double>(find(field), field, otherwise, "a number");
}

bool HuggingFaceFields::boolean(const std::string& field, std::optional<bool> otherwise) const {
  return value_of<bool>(find(field), field, otherwise, "true or false");
}

std::string HuggingFaceFields::word(const std::string& field, const std::optional<std::string>& otherwise) const {
  return value_of<std::string>(find(field), field, otherwise, "a text");
}

std::vector<std::string> HuggingFaceFields::words(const std::string& field) const {
  const OptionValue* found = find(field);
  // An empty list has no type.
  if (found != nullptr && *found == OptionValue(std::vector<double>{})) return {};
  return value_of<std::vector<std::string>>(found, field, std::vector<std::string>{}, "a list of texts");
}

void HuggingFaceFields::require(const std::string& field, const OptionValue& accepted) const {
  const OptionValue* found = find(field);
  if (found == nullptr || *found == accepted) return;
  const std::optional<double> number = value_as<double>(*found);
  if (number && number == value_as<double>(accepted)) return;
  refuse_field(field, found, to_string(accepted));
}

}  // namespace strata
