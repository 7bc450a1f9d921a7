#pragma once

#include <string>

#include "language/element.hpp"
#include "strata/error.hpp"
#include "strata/kernel_tools.hpp"

/// \file
/// Converts operands and results of ops to the arguments of kernels.

namespace strata::cuda {

using kernels::bytes;
using kernels::columns;
using kernels::elements;
using kernels::in;
using kernels::out;
using kernels::rows;
using kernels::workspace_at;
using kernels::WorkspacePlan;

/// Calls function.operator()<T>() with the kernels' element type for a real DType.
template <class Function>
auto with_element(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::f32:
      return function.template operator()<float>();
    case DType::bf16:
      return function.template operator()<BFloat16>();
    case DType::f16:
      return function.template operator()<Float16>();
    case DType::f64:
      return function.template operator()<double>();
    default:
      throw VerificationError("the cuda device has no kernels of type " + std::string(to_string(dtype)));
  }
}

}  // namespace strata::cuda
