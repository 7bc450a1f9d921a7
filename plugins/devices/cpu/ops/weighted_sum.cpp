#include <algorithm>
#include <vector>

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::cpu {
namespace {

/// Elements per block of a sum in other types than f32.
constexpr std::int64_t kBlock = 512;

template <class T>
std::vector<T> factors_of(const OpInstance& op) {
  std::vector<T> factors;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    factors.push_back(static_cast<T>(op.attributes.number("factor" + std::to_string(i))));
  }
  return factors;
}

/// y = factor · x. The result may be the operand.
template <class T>
void scale(std::int64_t size, T factor, const T* x, T* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] = factor * x[i];
}

/// y += factor · x
template <class T>
void add_scaled(std::int64_t size, T factor, const T* x, T* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] += factor * x[i];
}

template <class T>
PreparedKernel prepare_alike(const OpInstance& op, int threads) {
  return {[=, factors = factors_of<T>(op), size = elements(op.results[0])](const KernelArguments& arguments) {
    kernels::parallel_ranges(threads, size, [&](std::int64_t begin, std::int64_t end) {
      T* y = out<T>(arguments, 0) + begin;
      scale(end - begin, factors[0], in<T>(arguments, 0) + begin, y);
      for (std::size_t k = 1; k < factors.size(); ++k) {
        add_scaled(end - begin, factors[k], in<T>(arguments, k) + begin, y);
      }
    });
  }};
}

/// A sum of operands of several types, in f32.
PreparedKernel prepare_mixed(const OpInstance& op, const CpuEnvironment& environment) {
  const auto convert = conversion_kernels(environment.instruction_set()).convert;
  std::vector<DType> types;
  for (const OperandDescription& operand : op.operands) types.push_back(operand.dtype);
  return {[=, factors = factors_of<float>(op), types = std::move(types), to = op.results[0].dtype,
           size = elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
    kernels::parallel_ranges(threads, size, [&](std::int64_t begin, std::int64_t end) {
      const auto load = [&](std::size_t operand, std::int64_t at, std::int64_t count, float* into) {
        const char* from = in<char>(arguments, operand) + at * static_cast<std::int64_t>(size_of(types[operand]));
        convert(count, element_of(types[operand]), from, Element::f32, into, false, 1);
      };
      float sum[kBlock];
      float term[kBlock];
      for (std::int64_t at = begin; at < end; at += kBlock) {
        const std::int64_t count = std::min(kBlock, end - at);
        load(0, at, count, sum);
        scale(count, factors[0], sum, sum);
        for (std::size_t k = 1; k < factors.size(); ++k) {
          load(k, at, count, term);
          add_scaled(count, factors[k], term, sum);
        }
        char* y = out<char>(arguments, 0) + at * static_cast<std::int64_t>(size_of(to));
        convert(count, Element::f32, sum, element_of(to), y, false, 1);
      }
    });
  }};
}

bool all_are(const OpInstance& op, DType type) {
  const auto is = [type](const OperandDescription& each) { return each.dtype == type; };
  return std::all_of(op.operands.begin(), op.operands.end(), is) && is(op.results[0]);
}

std::optional<std::string> unsupported_weighted_sum(const OpInstance& op) {
  const auto is_f64 = [](const OperandDescription& each) { return each.dtype == DType::f64; };
  const bool any = std::any_of(op.operands.begin(), op.operands.end(), is_f64) || is_f64(op.results[0]);
  if (!any || all_are(op, DType::f64)) return std::nullopt;
  return "adds f64 to f64 only";
}

PreparedKernel prepare_weighted_sum(const OpInstance& op, const CpuEnvironment& environment) {
  if (all_are(op, DType::f64)) return prepare_alike<double>(op, environment.threads());
  if (all_are(op, DType::f32)) return prepare_alike<float>(op, environment.threads());
  return prepare_mixed(op, environment);
}

}  // namespace

void register_weighted_sum(Registration& registration) {
  add(registration, {ops::kWeightedSum, "s*", "s", false, unsupported_weighted_sum}, prepare_weighted_sum);
}

}  // namespace strata::cpu
