#include "strata/tensor.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <utility>

#include "strata/attributes.hpp"
#include "strata/dtype.hpp"
#include "strata/error.hpp"

namespace strata {

int find_dim(const Dims& dims, const Dim& dim) {
  const auto found = std::ranges::find(dims, dim);
  return found == dims.end() ? -1 : static_cast<int>(found - dims.begin());
}

Shape shape_of(const Dims& dims, const DimSizes& sizes) {
  Shape shape;
  shape.reserve(dims.size());
  for (const Dim& dim : dims) {
    const auto found = sizes.find(dim);
    if (found == sizes.end()) throw VerificationError("dimension '" + dim + "' has no size");
    shape.push_back(found->second);
  }
  return shape;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : separator) + words[i];
  return text;
}

std::string to_string(const TensorType& type) {
  return "[" + join(type.dims) + "]" + std::string(to_string(type.dtype));
}

namespace {

constexpr std::array<std::pair<DType, std::string_view>, 7> kTypeNames{{{DType::f64, "f64"},
                                                                        {DType::f32, "f32"},
                                                                        {DType::bf16, "bf16"},
                                                                        {DType::f16, "f16"},
                                                                        {DType::i32, "i32"},
                                                                        {DType::i64, "i64"},
                                                                        {DType::i8, "i8"}}};

}  // namespace

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::i8:
      return 1;
  }
  throw VerificationError("unknown element type");
}

std::string_view to_string(DType dtype) {
  for (const auto& [value, name] : kTypeNames) {
    if (value == dtype) return name;
  }
  throw VerificationError("unknown element type");
}

DType dtype_from_string(std::string_view text) {
  for (const auto& [value, name] : kTypeNames) {
    if (name == text) return value;
  }
  throw ConfigurationError("unknown element type '" + std::string(text) +
                           "'; accepted: f64, f32, bf16, f16, i32, i64, i8");
}

bool is_floating_point(DType dtype) { return dtype != DType::i32 && dtype != DType::i64 && dtype != DType::i8; }

namespace {

std::string print(const Attribute& attribute) {
  std::ostringstream out;
  std::visit([&out](const auto& value) { out << std::boolalpha << value; }, attribute);
  return out.str();
}

/// In the order of the types of an Attribute.
constexpr std::array kAttributeTypes{"true or false", "an integer", "a number such as 1.0", "a word"};

}  // namespace

template <class T>
const T& Attributes::get(const std::string& name) const {
  const auto found = values_.find(name);
  const T* value = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
  if (value != nullptr) return *value;
  throw VerificationError(
      "attribute '" + name + "' " +
      (found == values_.end() ? "is missing" : "= " + print(found->second) + " is of the wrong type") +
      "; accepted: " + kAttributeTypes.at(Attribute(T{}).index()));
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
