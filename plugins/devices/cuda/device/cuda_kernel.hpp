#pragma once

#include <memory>
#include <optional>
#include <string>

#include "language/element.hpp"
#include "language/index_map.hpp"
#include "matrix/matrix_product.hpp"
#include "shared/device_kernel.hpp"
#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/gpu_kernel.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/registration.hpp"

namespace strata::cuda {

/// The environment in which the cuda device prepares kernels: its GPU and the library for matrix products.
class CudaEnvironment final : public GpuEnvironment {
 public:
  CudaEnvironment(const GpuDescription& gpu, std::unique_ptr<MatrixLibrary> matrices);

  [[nodiscard]] MatrixLibrary& matrices() const { return *matrices_; }

 private:
  std::unique_ptr<MatrixLibrary> matrices_;
};

// Converts operands and results of ops to the arguments of kernels.

using devices::argument;
using devices::kAbsent;
using devices::Operand;
using devices::Result;
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

/// Registers a definition as a kernel of this device.
void add(Registration& registration, KernelDefinition definition);

/// Registers a kernel of this device. Real types are f32, bf16, f16 and f64. The index type is i32. `prepare`: as
/// devices::definition_of() takes it.
template <class Prepare>
void add(Registration& registration, const devices::DeviceKernel& kernel, const Prepare& prepare) {
  add(registration,
      devices::definition_of<CudaEnvironment>(kernel, "the cuda device", prepare, [](DType type, const auto& function) {
        return with_element(type, function);
      }));
}

/// Converts the index map of a dim to the form that kernels take. The dim that grows with every micro-batch gets its
/// offset at each launch. \throws ConfigurationError if the instance has no map for `dim`, or a map with too many
/// runs.
DimIndexMap dim_index_map(const OpInstance& op, const Dim& dim);

/// Converts the maps of several dims to one row-major map, such as the heads dims of attention. None of the dims may
/// grow with micro-batches.
DimIndexMap dims_index_map(const OpInstance& op, const Dims& dims);

/// Why kernels cannot take the maps of `dims`: the name of a dim with too many runs. Empty if they can.
std::optional<std::string> unsupported_index_maps(const OpInstance& op, const Dims& dims);

/// The offset of a map in a launch for `micro_batch`.
inline std::int64_t micro_batch_offset(const OpInstance& op, const Dim& dim, const DimIndexMap& map, int micro_batch) {
  return op.micro_batch_dim == dim ? map.global_size * micro_batch : 0;
}

}  // namespace strata::cuda
