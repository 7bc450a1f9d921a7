#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/index_map.hpp"
#include "shared/operand_sizes.hpp"
#include "strata/device.hpp"

namespace strata::reference {

/// Elements of a type that is known when compiled, read as f64.
template <class T>
class Elements {
 public:
  explicit Elements(const void* data) : data_(static_cast<const T*>(data)) {}
  double operator[](std::int64_t index) const { return static_cast<double>(data_[index]); }

 private:
  const T* data_;
};

/// Elements of any type, read as f64. Not inlined: loops over several readers would be compiled for every combination.
class Reader {
 public:
  Reader(const void* data, DType dtype) : data_(data), dtype_(dtype) {}
  double operator[](std::int64_t index) const;

 private:
  const void* data_;
  DType dtype_;
};

/// A copy of elements of any type as f64: for the ops that read each of them many times.
class Values {
 public:
  Values(const Reader& reader, std::int64_t count);
  double operator[](std::int64_t index) const { return values_[static_cast<std::size_t>(index)]; }

 private:
  std::vector<double> values_;
};

/// Elements of any floating-point type, written from f64. In an accumulating instance set() adds.
class Writer {
 public:
  Writer(void* data, DType dtype, bool accumulate) : data_(data), dtype_(dtype), accumulate_(accumulate) {}

  void set(std::int64_t index, double value) const { overwrite(index, accumulate_ ? get(index) + value : value); }
  [[nodiscard]] double get(std::int64_t index) const { return Reader(data_, dtype_)[index]; }
  void overwrite(std::int64_t index, double value) const;

 private:
  void* data_;
  DType dtype_;
  bool accumulate_;
};

/// The global index of a local one along one dimension, within the whole step.
class GlobalIndex {
 public:
  GlobalIndex(const IndexMap& map, std::int64_t offset) : map_(&map), offset_(offset) {}
  std::int64_t operator()(std::int64_t local) const { return map_->global_index(local) + offset_; }

 private:
  const IndexMap* map_;
  std::int64_t offset_;
};

using devices::columns;
using devices::elements;
using devices::index_map;
using devices::rows;

/// One launch: the instance and its arguments, as kernels like to see them.
class Launch {
 public:
  Launch(const OpInstance& op, const KernelArguments& arguments) : op_(op), arguments_(arguments) {}

  [[nodiscard]] const OpInstance& op() const { return op_; }
  [[nodiscard]] const StepContext& context() const { return arguments_.context; }
  [[nodiscard]] Reader operand(std::size_t index) const {
    return {arguments_.operands[index], op_.operands[index].dtype};
  }
  [[nodiscard]] Values values(std::size_t index) const { return {operand(index), elements(op_.operands[index])}; }
  /// Calls function(reader of the operand), compiled for f64 and f32: for the ops that take the time. Other types are
  /// converted first.
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

using LaunchFunction = std::function<void(const Launch&)>;

/// A device's kernel for one op.
struct KernelEntry {
  /// The letters of devices::KernelSignature: real types are f64, f32, bf16 and f16, an index is i32 or i64.
  std::string operands;
  std::string results;
  /// Does everything that needs doing once.
  LaunchFunction (*prepare)(const OpInstance&) = nullptr;
  bool can_accumulate = true;
  /// Empty: none.
  std::int64_t (*workspace)(const OpInstance&) = nullptr;
};

/// Why `instance` does not fit `entry`.
std::optional<std::string> mismatch(const KernelEntry& entry, const OpInstance& instance);
std::unique_ptr<Kernel> make_kernel(const KernelEntry& entry, const OpInstance& instance);

/// Global sizes of the dims of `operand`. \throws ConfigurationError if an index map is missing.
Shape global_shape(const OpInstance& op, const OperandDescription& operand);
/// Whether an operand's dim is the one that grows with every micro-batch.
bool is_micro_batch_dim(const OpInstance& op, const Dim& dim);

}  // namespace strata::reference
