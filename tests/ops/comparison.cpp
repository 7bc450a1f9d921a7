#include "ops/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/devices.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::isfinite(value) ? value * value : 0.0;
  return std::sqrt(sum);
}

}  // namespace

const OpRegistry& core_registry() {
  static const OpRegistry kRegistry = [] {
    OpRegistry registry;
    KernelRegistry kernels;
    register_vocabulary(registry, kernels);
    return registry;
  }();
  return kRegistry;
}

std::vector<OpCase> device_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& each : all_op_cases()) {
    if (each.on_devices) cases.push_back(each);
  }
  return cases;
}

std::vector<OpCase> accelerator_cases() {
  std::vector<OpCase> cases = device_cases();
  std::erase_if(cases, [](const OpCase& each) { return each.host_only; });
  return cases;
}

void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  std::vector<double> difference;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_FALSE(std::isnan(found[i])) << "element " << i << " of " << expected.size();
    ASSERT_FALSE(std::isnan(expected[i])) << "element " << i << " of the reference";
    if (std::isinf(expected[i]) || std::isinf(found[i])) {
      ASSERT_EQ(found[i], expected[i]) << "element " << i;
    } else {
      difference.push_back(found[i] - expected[i]);
    }
  }
  EXPECT_LE(norm(difference), tolerance * norm(expected));
}

double rounding(const OpInstance& instance, std::size_t result, int inner_roundings) {
  const auto of = [](DType dtype) {
    if (dtype == DType::bf16) return 0x1p-8;
    return dtype == DType::f16 ? 0x1p-11 : 0.0;
  };
  const double at_the_end = of(instance.results[result].dtype);
  return inner_roundings == 0 ? at_the_end : at_the_end + inner_roundings * of(instance.operands.front().dtype);
}

Expected::Expected(const OpCase& op_case, const OpInstance& instance, Device& reference)
    : values(make_values(op_case, instance, reference)),
      results(run_case(op_case, make_instance(op_case, core_registry(), DType::f64), values, reference)) {}

}  // namespace strata::testing
