#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kernels/kernel_library.hpp"
#include "strata/device.hpp"

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
  /// Types of the operands and results, one letter each: f is f32, b is f32 or bf16, i is i32, d is f64, s is a scalar
  /// or flat buffer in f32 or f64. A last '*' repeats the letter before it.
  std::string operands;
  std::string results;
  ComputeKernel (*prepare)(const OpInstance&, const Environment&) = nullptr;
  /// Adds to its results by itself.
  bool accumulates = false;
  /// Says why the shapes don't fit; null: all do.
  std::optional<std::string> (*unsupported)(const OpInstance&) = nullptr;
};

/// The entry for an op, or null.
const KernelEntry* find_kernel(const std::string& op);

/// For ops that cannot add: computes into the workspace, then adds that to the results.
ComputeKernel prepare_with_accumulation(const KernelEntry& entry, const OpInstance& op, const Environment& environment);

inline std::int64_t elements(const OperandDescription& operand) { return element_count(operand.shape); }
inline std::int64_t bytes(const OperandDescription& operand) {
  return elements(operand) * static_cast<std::int64_t>(size_of(operand.dtype));
}
/// Size of the last dim.
inline std::int64_t columns(const OperandDescription& operand) { return operand.shape.back(); }
/// Product of all dims but the last.
inline std::int64_t rows(const OperandDescription& operand) {
  return element_count(Shape(operand.shape.begin(), operand.shape.end() - 1));
}
/// Pieces of a workspace begin on cache lines.
inline std::int64_t aligned(std::int64_t size) { return (size + 63) / 64 * 64; }

inline const float* f32(const KernelArguments& arguments, std::size_t operand) {
  return static_cast<const float*>(arguments.operands[operand]);
}
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
