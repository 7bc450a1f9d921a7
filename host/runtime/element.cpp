#include "runtime/element.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace strata::host {
namespace {

template <class T>
T get(const void* array, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(array) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void put(void* array, std::int64_t index, T value) {
  std::memcpy(static_cast<std::byte*>(array) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

std::uint16_t to_bf16(double value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

double from_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10U) & 0x1F;
  const double fraction = bits & 0x3FF;
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 0x1F) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}

std::uint16_t to_f16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000U : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return 0x7E00U;
  if (size >= 65520) return sign | 0x7C00U;  // rounds to a value above the largest finite number
  int exponent = -14;
  if (size >= std::ldexp(1, -14)) exponent = std::ilogb(size);
  // `units` counts units in the last place. A carry out of the fraction increments the exponent field by itself.
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | (units + (static_cast<std::uint32_t>(exponent + 14) << 10U)));
}

}  // namespace

double load_element(DType dtype, const void* array, std::int64_t index) {
  switch (dtype) {
    case DType::f64:
      return get<double>(array, index);
    case DType::f32:
      return get<float>(array, index);
    case DType::bf16:
      return std::bit_cast<float>(std::uint32_t{get<std::uint16_t>(array, index)} << 16U);
    case DType::f16:
      return from_f16(get<std::uint16_t>(array, index));
    case DType::i32:
      return get<std::int32_t>(array, index);
    case DType::i64:
      return static_cast<double>(get<std::int64_t>(array, index));
    case DType::i8:
      return get<std::int8_t>(array, index);
  }
  return 0;
}

void store_element(DType dtype, void* array, std::int64_t index, double value) {
  switch (dtype) {
    case DType::f64:
      return put(array, index, value);
    case DType::f32:
      return put(array, index, static_cast<float>(value));
    case DType::bf16:
      return put(array, index, to_bf16(value));
    case DType::f16:
      return put(array, index, to_f16(value));
    case DType::i32:
      return put(array, index, static_cast<std::int32_t>(value));
    case DType::i64:
      return put(array, index, static_cast<std::int64_t>(value));
    case DType::i8:
      return put(array, index, static_cast<std::int8_t>(value));
  }
}

}  // namespace strata::host
