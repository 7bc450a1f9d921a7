#include "compiler/program/accumulation_type.hpp"

namespace strata::host {

DType accumulation_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

DType gradient_type(const Parameter& parameter, DType value_type) {
  // Verification in f64 needs every sum in f64.
  if (value_type == DType::f64) return DType::f64;
  return parameter.gradient_type.value_or(accumulation_type(value_type));
}

}  // namespace strata::host
