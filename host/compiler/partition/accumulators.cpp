#include "compiler/partition/accumulators.hpp"

namespace strata::host {

DType accumulation_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

DType gradient_type(const Parameter& parameter, DType value_type) {
  // In f64 everything is verified in f64, whatever a run would use.
  if (value_type == DType::f64) return DType::f64;
  return parameter.gradient_type.value_or(accumulation_type(value_type));
}

}  // namespace strata::host
