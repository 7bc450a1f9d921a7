#include "strata/dtype.hpp"

#include <array>
#include <string>
#include <utility>

#include "strata/error.hpp"

namespace strata {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 7> kNames{{{DType::f64, "f64"},
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
  for (const auto& [value, name] : kNames) {
    if (value == dtype) return name;
  }
  throw VerificationError("unknown element type");
}

DType dtype_from_string(std::string_view text) {
  for (const auto& [value, name] : kNames) {
    if (name == text) return value;
  }
  throw ConfigurationError("unknown element type '" + std::string(text) +
                           "'; accepted: f64, f32, bf16, f16, i32, i64, i8");
}

bool is_floating_point(DType dtype) { return dtype != DType::i32 && dtype != DType::i64 && dtype != DType::i8; }

}  // namespace strata
