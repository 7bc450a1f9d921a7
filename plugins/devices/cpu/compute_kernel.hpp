#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kernels/kernel_library.hpp"
#include "shared/kernel_arguments.hpp"
#include "shared/operand_sizes.hpp"
#include "shared/operand_types.hpp"
#include "strata/device.hpp"
#include "strata/error.hpp"

namespace strata::cpu {

/// What kernels run on.
struct Environment {
  const KernelLibrary* library = nullptr;
  int threads = 1;
};

using LaunchFunction = std::function<void(const KernelArguments&)>;

/// A prepared op.
struct ComputeKernel {
  LaunchFunction launch;
  std::int64_t workspace_bytes = 0;
};

/// How the device computes one op.
struct KernelEntry {
  /// The letters of devices::KernelSignature: real types are f32, bf16 and f16, an index is i32.
  std::string operands;
  std::string results;
  ComputeKernel (*prepare)(const OpInstance&, const Environment&) = nullptr;
  bool accumulates = false;
  /// Says why the shapes don't fit; null: all do.
  std::optional<std::string> (*unsupported)(const OpInstance&) = nullptr;
};

/// The entry for an op, or null.
const KernelEntry* find_kernel(const std::string& op);

/// Why operands and results of an instance have types that the entry's kernel doesn't take.
std::optional<std::string> type_mismatch(const KernelEntry& entry, const OpInstance& op);

/// The kernel of an instance that fits its entry: results that it cannot leave as they are wanted are computed in the
/// workspace, then converted or added.
ComputeKernel prepare_fitting(const KernelEntry& entry, const OpInstance& op, const Environment& environment);

using devices::bytes;
using devices::columns;
using devices::elements;
using devices::in;
using devices::out;
using devices::rows;

/// The kernels' word for a real type.
inline Element element_of(DType dtype) {
  if (dtype == DType::bf16) return Element::bf16;
  return dtype == DType::f16 ? Element::f16 : Element::f32;
}

/// Calls function.operator()<T>() with the kernels' type for a real one.
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
  return static_cast<const std::int32_t*>(arguments.operands[operand]);
}
inline double f64(const KernelArguments& arguments, std::size_t operand) {
  return *static_cast<const double*>(arguments.operands[operand]);
}
inline float* f32_result(const KernelArguments& arguments, std::size_t result) {
  return static_cast<float*>(arguments.results[result]);
}
inline double& f64_result(const KernelArguments& arguments, std::size_t result) {
  return *static_cast<double*>(arguments.results[result]);
}

}  // namespace strata::cpu
