#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "language/element.hpp"
#include "language/step_values.hpp"
#include "language/stream.hpp"
#include "shared/kernel_arguments.hpp"
#include "shared/operand_sizes.hpp"
#include "strata/device.hpp"
#include "strata/error.hpp"

namespace strata::cuda {

using devices::bytes;
using devices::columns;
using devices::elements;
using devices::in;
using devices::out;
using devices::rows;
using devices::WorkspacePlan;

class MatrixLibrary;

/// What the geometry of kernels depends on, and what multiplies matrices.
struct Environment {
  int multiprocessors = 1;
  /// The most shared memory that a block may ask for.
  std::size_t shared_bytes_per_block = 48 << 10;
  /// Of the device that ops are prepared for.
  std::shared_ptr<MatrixLibrary> matrices = nullptr;
  /// Where its kernels find the step's values.
  const StepValues* step = nullptr;
};

using LaunchFunction = std::function<void(const KernelArguments&, Stream)>;

/// An op with everything done that needs doing once.
struct PreparedOp {
  LaunchFunction launch;
  std::int64_t workspace_bytes = 0;
};

/// How the device computes one op.
struct KernelEntry {
  /// Letters of devices::KernelSignature. Real types are f32, bf16, f16 and f64, indices i32.
  std::string operands;
  std::string results;
  PreparedOp (*prepare)(const OpInstance&, const Environment&) = nullptr;
  /// Adds to its results by itself, where these have the types that the letters say.
  bool accumulates = false;
  /// Says why the shapes don't fit; null: all do.
  std::optional<std::string> (*unsupported)(const OpInstance&) = nullptr;
};

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
    case DType::f64:
      return function.template operator()<double>();
    default:
      throw VerificationError("the cuda device has no kernels of type " + std::string(to_string(dtype)));
  }
}

/// The piece of the workspace at `offset`.
template <class T>
T* workspace_at(const KernelArguments& arguments, std::int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(arguments.workspace) + offset);
}

}  // namespace strata::cuda
