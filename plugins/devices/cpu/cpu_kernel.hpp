#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_family.hpp"
#include "shared/device_kernel.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/kernel.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/registration.hpp"

/// \file
/// What the files of ops/ are written with: they turn an op's instance into calls of kernel functions.

namespace strata::cpu {

/// The environment of the cpu device's kernels: number of threads and instruction set.
class CpuEnvironment final : public KernelEnvironment {
 public:
  CpuEnvironment(int threads, InstructionSet instruction_set)
      : KernelEnvironment("host", threads), instruction_set_(instruction_set) {}

  [[nodiscard]] InstructionSet instruction_set() const { return instruction_set_; }

 private:
  InstructionSet instruction_set_;
};

using kernels::bytes;
using kernels::columns;
using kernels::elements;
using kernels::in;
using kernels::index_map;
using kernels::out;
using kernels::rows;

/// Calls body(row) for `count` rows of `elements` elements, on up to `threads` threads.
template <class Body>
void for_each_row(int threads, std::int64_t count, std::int64_t elements, const Body& body) {
  kernels::parallel_ranges(
      threads, count,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) body(row);
      },
      elements);
}

// Access to single elements, for code that is not worth vectorising.

inline float widen(float value) { return value; }
inline float widen(BFloat16 value) { return from_bf16(value.bits); }
inline float widen(Float16 value) { return from_f16(value.bits); }

inline void assign(float& to, float value) { to = value; }
inline void assign(BFloat16& to, float value) { to.bits = to_bf16(value); }
inline void assign(Float16& to, float value) { to.bits = to_f16(value); }

/// Assigns the value, or adds it in an accumulating instance.
template <class T>
void store_value(T& to, float value, bool accumulate) {
  assign(to, accumulate ? widen(to) + value : value);
}

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

/// Registers a kernel of this device. Real types are f32, bf16 and f16. The index type is i32. `prepare`: as
/// devices::definition_of() takes it.
template <class Prepare>
void add(Registration& registration, const devices::DeviceKernel& kernel, const Prepare& prepare) {
  registration.add(devices::definition_of<CpuEnvironment>(
      kernel, "the cpu device", prepare,
      [](DType type, const auto& function) { return with_element(type, function); }));
}

/// The index map of one dim in the form that kernels take. It owns the segments. If the dim advances with the
/// micro-batch, so does the map.
class DimIndices {
 public:
  DimIndices(const OpInstance& op, const Dim& dim)
      : DimIndices(kernels::index_map(op, dim), op.micro_batch_dim == dim) {}
  /// Several dims taken as one, row-major, such as the heads of attention. None of them may advance with the
  /// micro-batch.
  DimIndices(const OpInstance& op, const Dims& dims) : DimIndices(kernels::index_map(op, dims), false) {}

  [[nodiscard]] std::int64_t local_size() const { return local_size_; }
  [[nodiscard]] std::int64_t global_size() const { return global_size_; }
  /// The map for one micro-batch. It is valid until the next call.
  [[nodiscard]] IndexMap map(int micro_batch) {
    const std::int64_t offset = moves_ ? global_size_ * micro_batch : 0;
    for (std::size_t i = 0; i < segments_.size(); ++i) moved_[i].global_begin = segments_[i].global_begin + offset;
    return {moved_.data(), static_cast<std::int64_t>(moved_.size())};
  }
  [[nodiscard]] IndexedDim dim(int micro_batch) { return {local_size_, global_size_, map(micro_batch)}; }

 private:
  DimIndices(const strata::IndexMap& map, bool moves)
      : local_size_(map.local_size()), global_size_(map.global_size), moves_(moves) {
    for (const strata::IndexSegment& segment : map.segments) {
      segments_.push_back({segment.local_begin, segment.global_begin, segment.length});
    }
    moved_ = segments_;
  }

  std::int64_t local_size_ = 0;
  std::int64_t global_size_ = 0;
  bool moves_ = false;
  std::vector<IndexSegment> segments_;
  std::vector<IndexSegment> moved_;
};

using devices::argument;
using devices::kAbsent;
using devices::Operand;
using devices::Result;

/// A dim that does not advance with the micro-batch.
inline IndexMap argument(DimIndices& dim, const KernelArguments& /*launch*/) { return dim.map(0); }

/// A kernel whose launch calls `function` with the arguments: operands, results and dims of the launch, and values.
template <class Function, class... Arguments>
PreparedKernel call(Function function, Arguments... arguments) {
  return {[=](const KernelArguments& launch) mutable { function(argument(arguments, launch)...); }};
}

/// A kernel whose launch stores `function(arguments…)` in the first result, an f64, or adds it with `accumulate`.
template <class Function, class... Arguments>
PreparedKernel call_for_total(bool accumulate, Function function, Arguments... arguments) {
  return {[=](const KernelArguments& launch) mutable {
    const auto total = static_cast<double>(function(argument(arguments, launch)...));
    double& result = *out<double>(launch, 0);
    result = accumulate ? result + total : total;
  }};
}

}  // namespace strata::cpu
