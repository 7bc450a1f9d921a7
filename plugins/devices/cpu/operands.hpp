#pragma once

#include <cstdint>
#include <string>

#include "kernels/element.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/kernel_tools.hpp"

/// \file
/// Conversions of operands and results to the kernels' types.

namespace strata::cpu {

// Access to single elements, for code that is not worth vectorising.

inline float widen(float value) { return value; }
inline float widen(BFloat16 value) { return from_bf16(value.bits); }
inline float widen(Float16 value) { return from_f16(value.bits); }

inline void assign(float& to, float value) { to = value; }
inline void assign(BFloat16& to, float value) { to.bits = to_bf16(value); }
inline void assign(Float16& to, float value) { to.bits = to_f16(value); }

using kernels::bytes;
using kernels::columns;
using kernels::elements;
using kernels::in;
using kernels::index_map;
using kernels::out;
using kernels::rows;

/// The kernels' Element for a real type.
inline Element element_of(DType dtype) {
  if (dtype == DType::bf16) return Element::bf16;
  return dtype == DType::f16 ? Element::f16 : Element::f32;
}

/// Calls function.operator()<T>() with the kernels' C++ type for a real type.
template <class Function>
auto with_element(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::f32:
      return function.template operator()<float>();
    case DType::bf16:
      return function.template operator()<BFloat16>();
    case DType::f16:
      return function.template operator()<Float16>();
    default:
      throw VerificationError("the cpu device has no kernels of type " + std::string(to_string(dtype)));
  }
}

inline const float* f32(const KernelArguments& arguments, std::size_t operand) { return in<float>(arguments, operand); }
inline const std::int32_t* i32(const KernelArguments& arguments, std::size_t operand) {
  return in<std::int32_t>(arguments, operand);
}
inline double f64(const KernelArguments& arguments, std::size_t operand) { return *in<double>(arguments, operand); }
inline float* f32_result(const KernelArguments& arguments, std::size_t result) { return out<float>(arguments, result); }
inline double& f64_result(const KernelArguments& arguments, std::size_t result) {
  return *out<double>(arguments, result);
}

}  // namespace strata::cpu
