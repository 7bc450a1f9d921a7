#include "strata/attributes.hpp"

#include <sstream>

#include "strata/error.hpp"

namespace strata {
namespace {

std::string print(const Attribute& attribute) {
  std::ostringstream out;
  std::visit([&out](const auto& value) { out << std::boolalpha << value; }, attribute);
  return out.str();
}

}  // namespace

template <class T>
const T& Attributes::get(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw VerificationError("attribute '" + name + "' is missing");
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr)
    throw VerificationError("attribute '" + name + "' = " + print(found->second) + " is of the wrong type");
  return *value;
}

bool Attributes::flag(const std::string& name) const { return get<bool>(name); }
std::int64_t Attributes::integer(const std::string& name) const { return get<std::int64_t>(name); }
double Attributes::number(const std::string& name) const { return get<double>(name); }
const std::string& Attributes::word(const std::string& name) const { return get<std::string>(name); }

std::string to_string(const Attributes& attributes) {
  if (attributes.values().empty()) return {};
  std::string text = "{";
  for (const auto& [name, value] : attributes.values()) {
    text += (text.size() == 1 ? "" : " ") + name + "=" + print(value);
  }
  return text + "}";
}

}  // namespace strata
