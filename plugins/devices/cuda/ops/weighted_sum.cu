#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "language/language.hpp"
#include "launchers/map_elements.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::cuda {

struct Weights {
  double factor[3] = {};
};

/// The sum of up to three values, each times its factor.
struct WeightedSum {
  Weights weights;

  template <class Value>
  __device__ __forceinline__ Value operator()(Value x) const {
    return static_cast<Value>(weights.factor[0]) * x;
  }
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y) const {
    return (*this)(x) + static_cast<Value>(weights.factor[1]) * y;
  }
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y, Value z) const {
    return (*this)(x, y) + static_cast<Value>(weights.factor[2]) * z;
  }
};

namespace {

constexpr std::size_t kMostTerms = 3;

std::optional<std::string> unsupported_weighted_sum(const OpInstance& op) {
  if (op.operands.size() > kMostTerms) {
    return "adds up to " + std::to_string(kMostTerms) + " terms, found " + std::to_string(op.operands.size());
  }
  for (const OperandDescription& operand : op.operands) {
    if (operand.dtype != op.operands[0].dtype) return "adds terms of one type";
  }
  if (op.operands.size() == 1 || op.operands[0].dtype == op.results[0].dtype) return std::nullopt;
  return "adds several terms in their type only";
}

Weights weights_of(const OpInstance& op) {
  Weights weights;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    weights.factor[i] = op.attributes.number("factor" + std::to_string(i));
  }
  return weights;
}

PreparedKernel prepare_weighted_sum(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  const Weights weights = weights_of(op);
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    if (op.operands.size() == 2) return {map_operands<T, T, T>(op, WeightedSum{weights})};
    if (op.operands.size() == 3) return {map_operands<T, T, T, T>(op, WeightedSum{weights})};
    return with_element(op.results[0].dtype,
                        [&]<class To>() -> PreparedKernel { return {map_operands<To, T>(op, WeightedSum{weights})}; });
  });
}

}  // namespace

void register_weighted_sum(Registration& registration) {
  registration.add(kernel({ops::kWeightedSum, "s*", "s", prepare_weighted_sum, true, unsupported_weighted_sum}));
}

}  // namespace strata::cuda
