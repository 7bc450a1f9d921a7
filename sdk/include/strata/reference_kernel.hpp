#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/kernel.hpp"
#include "strata/kernel_tools.hpp"

/// \file
/// Reference kernels define ops: plain code on one thread that computes in f64 whatever the element type. Tests compare
/// faster kernels with them. A device on host memory runs them for ops without a faster kernel.
///
/// Example, for an op y = x · x:
///
///   Work prepare_square(const OpInstance& op) {
///     return [count = elements(op.results[0])](const Launch& launch) {
///       for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, launch.operand(0)[i] * launch.operand(0)[i]);
///     };
///   }
///   registration.add(kernel({"square", "r", "r", prepare_square}));

namespace strata::reference {

using kernels::columns;
using kernels::elements;
using kernels::index_map;
using kernels::rows;

/// Reads elements of a static type T as f64.
template <class T>
class Elements {
 public:
  explicit Elements(const void* data) : data_(static_cast<const T*>(data)) {}
  double operator[](std::int64_t index) const { return static_cast<double>(data_[index]); }

 private:
  const T* data_;
};

/// Reads elements of any type as f64. Only f64 itself is read inline, because loops over several readers would be
/// compiled for every combination of types.
class STRATA_API Reader {
 public:
  Reader(const void* data, DType dtype) : data_(data), dtype_(dtype) {}
  double operator[](std::int64_t index) const {
    return dtype_ == DType::f64 ? static_cast<const double*>(data_)[index] : converted(index);
  }

 private:
  [[nodiscard]] double converted(std::int64_t index) const;

  const void* data_;
  DType dtype_;
};

/// A copy of elements of any type as f64, for ops that read each element many times.
class STRATA_API Values {
 public:
  Values(const Reader& reader, std::int64_t count);
  double operator[](std::int64_t index) const { return values_[static_cast<std::size_t>(index)]; }

 private:
  std::vector<double> values_;
};

/// Writes elements of any floating-point type from f64. In an accumulating instance set() adds to the element.
class STRATA_API Writer {
 public:
  Writer(void* data, DType dtype, bool accumulate) : data_(data), dtype_(dtype), accumulate_(accumulate) {}

  void set(std::int64_t index, double value) const { overwrite(index, accumulate_ ? get(index) + value : value); }
  [[nodiscard]] double get(std::int64_t index) const { return Reader(data_, dtype_)[index]; }
  /// Writes the element, also in an accumulating instance.
  void overwrite(std::int64_t index, double value) const;

 private:
  void* data_;
  DType dtype_;
  bool accumulate_;
};

/// Converts a local index along one dimension to the global index within the whole step.
class GlobalIndex {
 public:
  GlobalIndex(const IndexMap& map, std::int64_t offset) : map_(&map), offset_(offset) {}
  std::int64_t operator()(std::int64_t local) const { return map_->global_index(local) + offset_; }

 private:
  const IndexMap* map_;
  std::int64_t offset_;
};

/// One launch: the instance and its arguments.
class STRATA_API Launch {
 public:
  Launch(const OpInstance& op, const KernelArguments& arguments) : op_(op), arguments_(arguments) {}

  [[nodiscard]] const OpInstance& op() const { return op_; }
  [[nodiscard]] const StepContext& context() const { return arguments_.context; }
  [[nodiscard]] Reader operand(std::size_t index) const {
    return {arguments_.operands[index], op_.operands[index].dtype};
  }
  [[nodiscard]] Values values(std::size_t index) const { return {operand(index), elements(op_.operands[index])}; }
  /// Calls function(reader of the operand) with a reader of static type for f64 and f32. Other types are converted
  /// first. Expensive ops use it to avoid the type dispatch of Reader.
  template <class Function>
  void with_operand(std::size_t index, const Function& function) const {
    switch (op_.operands[index].dtype) {
      case DType::f64:
        return function(Elements<double>(arguments_.operands[index]));
      case DType::f32:
        return function(Elements<float>(arguments_.operands[index]));
      default:
        return function(values(index));
    }
  }
  [[nodiscard]] Writer result(std::size_t index) const {
    return {arguments_.results[index], op_.results[index].dtype, op_.accumulate};
  }
  [[nodiscard]] double* workspace() const { return static_cast<double*>(arguments_.workspace); }
  [[nodiscard]] GlobalIndex global_index(const Dim& dim) const;
  /// The key of this op's random numbers in this step.
  [[nodiscard]] std::uint64_t stream_key() const;

 private:
  const OpInstance& op_;
  const KernelArguments& arguments_;
};

/// Distance in elements between neighbours along each dimension of a loop; 0 if the operand lacks the dimension.
using Strides = std::vector<std::int64_t>;
/// Strides of a contiguous `operand` along `dims`.
STRATA_API Strides strides_along(const OperandDescription& operand, const Dims& dims);
/// Offset, in an operand with `strides`, of point number `flat` (row-major) of a loop over `shape`.
STRATA_API std::int64_t offset(std::int64_t flat, const Shape& shape, const Strides& strides);

/// The work of one launch.
using Work = std::function<void(const Launch&)>;

/// A reference kernel.
struct Definition {
  std::string op;
  /// Letters of KernelSignature. Real types are f64, f32, bf16 and f16. Index types are i32 and i64.
  std::string operands;
  std::string results;
  /// Does the work that is needed only once. \return the work of a launch.
  Work (*prepare)(const OpInstance&) = nullptr;
  /// False if the work calls Writer::overwrite, which never adds to results.
  bool accumulates = true;
  /// Bytes of workspace. Null: none.
  std::int64_t (*workspace)(const OpInstance&) = nullptr;
  /// Why the kernel refuses an instance whose types fit. Null: it refuses none.
  std::optional<std::string> (*unsupported)(const OpInstance&) = nullptr;
};

/// The kernel definition for the runtime "host", with kReferenceRank.
STRATA_API KernelDefinition kernel(const Definition& definition);

/// Global sizes of the dims of `operand`. \throws ConfigurationError if an index map is missing.
STRATA_API Shape global_shape(const OpInstance& op, const OperandDescription& operand);
/// True if `dim` is the dimension that advances with every micro-batch.
STRATA_API bool is_micro_batch_dim(const OpInstance& op, const Dim& dim);

}  // namespace strata::reference
