#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "strata/export.hpp"

namespace strata {

/// The value of one attribute: a flag, an integer, a number or a word.
using Attribute = std::variant<bool, std::int64_t, double, std::string>;

/// The attributes of a node by name, such as "p" of dropout, "epsilon" of layer_norm and "kind" of activation.
class STRATA_API Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> values) : values_(values) {}

  void set(const std::string& name, Attribute value) { values_[name] = std::move(value); }
  [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }

  /// The value of the attribute `name`. \throws VerificationError if it is missing or has another type.
  [[nodiscard]] bool flag(const std::string& name) const;
  [[nodiscard]] std::int64_t integer(const std::string& name) const;
  [[nodiscard]] double number(const std::string& name) const;
  [[nodiscard]] const std::string& word(const std::string& name) const;

  [[nodiscard]] const std::map<std::string, Attribute>& values() const { return values_; }
  bool operator==(const Attributes&) const = default;

 private:
  template <class T>
  [[nodiscard]] const T& get(const std::string& name) const;

  std::map<std::string, Attribute> values_;
};

/// The attributes in one line, such as "{epsilon=1e-05 kind=gelu_tanh}". Empty if there are none.
STRATA_API std::string to_string(const Attributes& attributes);

}  // namespace strata
