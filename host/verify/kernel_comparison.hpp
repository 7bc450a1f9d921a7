#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "strata/device.hpp"

namespace strata::host {

/// Largest relative error of one rounding to the type: half a unit in the last place. 0 for integers.
[[nodiscard]] constexpr double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

/// Comparison of one op's kernel with its reference kernel, over all launches with the same element types.
struct KernelCheck {
  std::string op;
  /// Element types, such as "bf16 bf16 -> f32".
  std::string types;
  /// The plugin that registered the kernel.
  std::string origin;
  std::int64_t launches = 0;
  /// Largest difference of a result, divided by the tolerance.
  double error = 0;
  /// The result with that difference: "result 0 of 'h.0.attention', 2x64x4x32".
  std::string worst;
  /// Why the results could not be compared. Empty if they were.
  std::string fault;

  [[nodiscard]] bool holds() const { return fault.empty() && error <= 1; }
};

/// Collects the comparisons of all ranks.
class KernelComparisons {
 public:
  /// `progress` gets the number of launches after each. It may be empty.
  explicit KernelComparisons(std::function<void(std::size_t launches)> progress = {})
      : progress_(std::move(progress)) {}
  /// `error`: the largest difference of the results, divided by the tolerance.
  void add(const OpInstance& instance, const std::string& origin, double error, const std::string& where);
  void add_fault(const OpInstance& instance, const std::string& origin, const std::string& fault);
  /// The comparisons, sorted by op and types.
  [[nodiscard]] std::vector<KernelCheck> checks() const;

 private:
  KernelCheck& entry(const OpInstance& instance, const std::string& origin);

  std::function<void(std::size_t launches)> progress_;
  mutable std::mutex mutex_;
  std::size_t launches_ = 0;
  std::map<std::string, KernelCheck> checks_;
};

/// A device that runs each kernel of `inner` and its reference kernel on copies of the same operands, and compares the
/// results. The tolerance is what rounding explains: a few roundings of the result's type (of f32 for a result in f64
/// of shorter operands), plus a few times the change of the reference result when every operand is rounded once more.
/// For a sum of n terms that change counts sqrt(n) times, because the terms may cancel out. `kernels` and `comparisons`
/// outlive the device.
[[nodiscard]] std::unique_ptr<Device> compare_kernels(std::shared_ptr<Device> inner, const KernelRegistry& kernels,
                                                      KernelComparisons& comparisons);

}  // namespace strata::host
