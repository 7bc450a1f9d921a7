// Every op of the cpu device against the reference device, for every row of the table.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ops/comparison.hpp"
#include "ops/devices.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"

namespace strata::testing {
namespace {

/// A sanitized build only looks for conflicts of threads.
const std::vector<std::int64_t> kThreads = kSanitized ? std::vector<std::int64_t>{3} : std::vector<std::int64_t>{1, 3};

/// The cpu device with each instruction set and thread count, including an odd one.
const std::map<std::string, std::shared_ptr<Device>>& every_cpu_device() {
  static const std::map<std::string, std::shared_ptr<Device>> kDevices = [] {
    std::map<std::string, std::shared_ptr<Device>> devices;
    for (const std::int64_t threads : kThreads) {
      for (const auto& [name, device] : cpu_devices(threads)) {
        devices[name + ", threads " + std::to_string(threads)] = device;
      }
    }
    return devices;
  }();
  return kDevices;
}

/// Compares the cpu device in all its forms with the reference, in one element type.
void expect_cpu_equals_reference(const OpCase& op_case, DType real) {
  const auto reference = make_device("reference");
  const OpInstance instance = make_instance(op_case, core_registry(), real);
  const Expected expected(op_case, instance, *reference);
  for (const auto& [name, device] : every_cpu_device()) {
    SCOPED_TRACE(name);
    ASSERT_EQ(device->unsupported(instance), std::nullopt);
    const auto choice = device->kernel_choice(instance);
    ASSERT_TRUE(choice.has_value());
    EXPECT_TRUE(op_case.optional || !choice->is_last_resort) << "the device has no kernel of its own";
    const auto found = run_case(op_case, instance, expected.values, *device);
    ASSERT_EQ(found.size(), expected.results.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE("result " + std::to_string(i));
      expect_close(found[i], expected.results[i], op_case.tolerance + rounding(instance, i, op_case.inner_roundings));
    }
  }
}

const OpCase& case_named(const std::string& name) {
  const auto& cases = all_op_cases();
  const auto found = std::find_if(cases.begin(), cases.end(), [&](const OpCase& each) { return each.name == name; });
  if (found == cases.end()) throw VerificationError("there is no row '" + name + "'");
  return *found;
}

class OpOnDevices : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpOnDevices, CpuEqualsReference) { expect_cpu_equals_reference(GetParam(), DType::f32); }
TEST_P(OpOnDevices, CpuInBf16EqualsReference) { expect_cpu_equals_reference(GetParam(), DType::bf16); }
TEST_P(OpOnDevices, CpuInF16EqualsReference) { expect_cpu_equals_reference(GetParam(), DType::f16); }

/// The reference device in f32 differs from f64 only by the rounding of its results.
TEST_P(OpOnDevices, ReferenceInF32EqualsF64) {
  const OpCase& op_case = GetParam();
  const auto reference = make_device("reference");
  const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
  const Expected expected(op_case, instance, *reference);
  const auto found = run_case(op_case, instance, expected.values, *reference);
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    expect_close(found[i], expected.results[i], 2e-7 + rounding(instance, i));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OpOnDevices, ::testing::ValuesIn(device_cases()),
                         [](const ::testing::TestParamInfo<OpCase>& test) { return test.param.name; });

TEST(OpTable, HasRowsForEveryRegisteredOp) {
  std::set<std::string> covered;
  std::set<std::string> names;
  for (const OpCase& each : all_op_cases()) {
    covered.insert(each.op);
    EXPECT_TRUE(names.insert(each.name).second) << "two rows are named " << each.name;
  }
  for (const std::string& name : core_registry().names()) {
    EXPECT_TRUE(covered.contains(name)) << "the table has no row for op '" << name << "'";
  }
}

TEST(OpTable, HasRowsForEveryOperandThatAResultMayReplace) {
  std::set<std::pair<std::string, int>> covered;
  for (const OpCase& each : all_op_cases()) covered.insert({each.op, each.in_place});
  for (const std::string& name : core_registry().names()) {
    for (const int operand : core_registry().get(name).in_place_operands(0)) {
      EXPECT_TRUE(covered.contains({name, operand})) << name << " in place of operand " << operand;
    }
  }
}

/// Every device, by name.
std::map<std::string, std::shared_ptr<Device>> all_devices() {
  std::map<std::string, std::shared_ptr<Device>> devices = every_cpu_device();
  devices["reference"] = make_device("reference");
  for (const std::string& name : accelerators()) devices[name] = make_device(name);
  return devices;
}

/// The devices that have a kernel for the op of a row.
std::map<std::string, std::shared_ptr<Device>> devices_for(const OpCase& op_case) {
  std::map<std::string, std::shared_ptr<Device>> devices = all_devices();
  if (op_case.host_only) std::erase_if(devices, [](const auto& each) { return !each.second->is_host_memory(); });
  return devices;
}

/// Ranks leave out skipped rows where they exchange the others, so that their memory has any contents.
TEST(OpOnEveryDevice, NeitherReadsNorFillsRowsThatItSkips) {
  const auto reference = make_device("reference");
  int cases = 0;
  std::set<std::string> ops;
  for (const OpCase& op_case : all_op_cases()) {
    const auto routed = core_registry().get(op_case.op).routed_rows();
    // One row for an op reaches the code for skipped rows.
    if (!routed || (kSanitized && !ops.insert(op_case.op).second)) continue;
    ++cases;
    SCOPED_TRACE(op_case.name);
    const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
    CaseValues values = make_values(op_case, instance, *reference);
    const auto marks = static_cast<std::size_t>(routed->marks);
    const std::size_t columns = static_cast<std::size_t>(instance.operands[marks].shape.back());
    const std::size_t rows = values.operands[marks].size() / columns;
    const auto fill_skipped = [rows](std::vector<double>& all, double value) {
      const std::size_t width = all.size() / rows;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (i / width % 3 == 0) all[i] = value;
      }
    };
    fill_skipped(values.operands[marks], 0);
    CaseValues disturbed = values;
    for (const int operand : routed->operands) {
      fill_skipped(disturbed.operands[static_cast<std::size_t>(operand)], std::numeric_limits<double>::quiet_NaN());
    }
    for (const auto& [name, device] : devices_for(op_case)) {
      SCOPED_TRACE(name);
      const auto found = run_case(op_case, instance, disturbed, *device);
      EXPECT_EQ(found, run_case(op_case, instance, values, *device));
      if (op_case.accumulate) continue;
      for (const int result : routed->results) {
        const std::vector<double>& all = found[static_cast<std::size_t>(result)];
        std::vector<double> filled = all;
        fill_skipped(filled, 0);
        EXPECT_EQ(all, filled) << "result " << result;
      }
    }
  }
  EXPECT_GE(cases, 3);
}

TEST(OpOnEveryDevice, IsRefusedByNameIfUnknown) {
  OpInstance instance;
  instance.op = "no_such_op";
  for (const auto& [name, device] : all_devices()) {
    const auto reason = device->unsupported(instance);
    ASSERT_TRUE(reason.has_value());
    EXPECT_NE(reason->find("no_such_op"), std::string::npos);
    EXPECT_THROW(static_cast<void>(device->prepare(instance)), ConfigurationError);
  }
}

/// An overflow gives the update a scale that is not finite. All ranks have the same scale, and all skip the step.
TEST(OpOnEveryDevice, UpdatesChangeNothingAtAScaleThatIsNotFinite) {
  const auto reference = make_device("reference");
  for (const OpCase& op_case : all_op_cases()) {
    const auto signature = core_registry().get(op_case.op).flat_signature(op_case.attributes);
    if (!signature || (!signature->is_update && signature->states.empty())) continue;
    SCOPED_TRACE(op_case.name);
    const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
    CaseValues values = make_values(op_case, instance, *reference);
    for (const double scale : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      values.operands[1] = {scale};
      for (const auto& [name, device] : devices_for(op_case)) {
        SCOPED_TRACE(name);
        EXPECT_EQ(run_case(op_case, instance, values, *device), values.before);
      }
    }
  }
}

TEST(OpOnEveryDevice, GivesAScaleForABatchWithoutTargets) {
  const auto reference = make_device("reference");
  for (const OpCase& op_case : all_op_cases()) {
    if (op_case.op != "gradient_scale") continue;
    SCOPED_TRACE(op_case.name);
    const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
    CaseValues values = make_values(op_case, instance, *reference);
    values.operands[0] = values.operands[1] = {0};
    for (const auto& [name, device] : all_devices()) {
      SCOPED_TRACE(name);
      const auto results = run_case(op_case, instance, values, *device);
      if (op_case.attributes.has("skips_empty")) {
        EXPECT_TRUE(std::isnan(results[0][0]));
      } else {
        EXPECT_EQ(results[0][0], 0);
      }
      EXPECT_EQ(results[1][0], 0);
    }
  }
}

TEST(OpOnEveryDevice, GivesNoFiniteScaleForGradientsThatAreNot) {
  const auto reference = make_device("reference");
  for (const OpCase& op_case : all_op_cases()) {
    if (op_case.op != "gradient_scale") continue;
    SCOPED_TRACE(op_case.name);
    const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
    CaseValues values = make_values(op_case, instance, *reference);
    for (const double squares : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      values.operands[0] = {squares};
      for (const auto& [name, device] : all_devices()) {
        SCOPED_TRACE(name);
        const auto results = run_case(op_case, instance, values, *device);
        EXPECT_FALSE(std::isfinite(results[0][0]));
        EXPECT_FALSE(std::isfinite(results[1][0]));
      }
    }
  }
}

/// Values are the rounded master copy, not a separate computation.
TEST(OpOnEveryDevice, KeepsValuesEqualToTheRoundedMaster) {
  const auto reference = make_device("reference");
  for (const OpCase& op_case : all_op_cases()) {
    if (op_case.name.find("master_of") == std::string::npos) continue;
    SCOPED_TRACE(op_case.name);
    const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
    const CaseValues values = make_values(op_case, instance, *reference);
    for (const auto& [name, device] : devices_for(op_case)) {
      SCOPED_TRACE(name);
      const auto results = run_case(op_case, instance, values, *device);
      std::vector<double> rounded;
      for (const double master : results[1]) {
        const auto value = static_cast<float>(master);
        rounded.push_back(instance.results[0].dtype == DType::bf16 ? from_bf16(to_bf16(value))
                                                                   : from_f16(to_f16(value)));
      }
      EXPECT_EQ(results[0], rounded);
    }
  }
}

TEST(OpOnCpu, IsRefusedInF64WithTheOperandWithoutReferenceKernels) {
  const KernelRegistry kernels = own_kernels("cpu");
  const OpCase& op_case = all_op_cases().front();
  const OpInstance instance = make_instance(op_case, core_registry(), DType::f64);
  const auto reason = make_device("cpu", {}, {.kernels = &kernels})->unsupported(instance);
  ASSERT_TRUE(reason.has_value());
  EXPECT_NE(reason->find("operand 0 cannot be f64"), std::string::npos) << *reason;
}

/// The bits equal those of the reference device, because it is the same kernel.
TEST(OpOnCpu, RunsTheReferenceKernelInF64) {
  const auto reference = make_device("reference");
  const auto cpu = make_device("cpu");
  for (const std::string name : {"linear_forward", "attention_causal", "sgd_plain"}) {
    SCOPED_TRACE(name);
    const OpCase& op_case = case_named(name);
    const OpInstance instance = make_instance(op_case, core_registry(), DType::f64);
    const auto choice = cpu->kernel_choice(instance);
    ASSERT_TRUE(choice.has_value());
    EXPECT_TRUE(choice->is_last_resort);
    EXPECT_EQ(choice->origin, kCoreOrigin);
    const CaseValues values = make_values(op_case, instance, *reference);
    EXPECT_EQ(run_case(op_case, instance, values, *cpu), run_case(op_case, instance, values, *reference));
  }
}

TEST(OpOnCpu, RefusesAnActivationThatItHasNoKernelFor) {
  const KernelRegistry kernels = own_kernels("cpu");
  const auto device = make_device("cpu", {}, {.kernels = &kernels});
  for (const OpCase& op_case : all_op_cases()) {
    if (!op_case.op.starts_with("activation")) continue;
    SCOPED_TRACE(op_case.name);
    OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
    EXPECT_EQ(device->unsupported(instance), std::nullopt);
    instance.attributes.set("kind", std::string("no_such_function"));
    const auto reason = device->unsupported(instance);
    ASSERT_TRUE(reason.has_value());
    EXPECT_NE(reason->find("no kernel for 'no_such_function'"), std::string::npos) << *reason;
  }
}

/// Kernels of the cpu device assume its processor features, so no other device with host memory may run them.
TEST(OpOnCpu, HasKernelsForNoOtherDevice) {
  const KernelRegistry kernels = own_kernels("cpu");
  const KernelEnvironment other("host", 1);
  const KernelSelector selector("another device", kernels, other);
  for (const OpCase& op_case : device_cases()) {
    const auto reason = selector.unsupported(make_instance(op_case, core_registry(), DType::f32));
    ASSERT_TRUE(reason.has_value()) << op_case.name;
    // The kernels of a plugin's op are beside the op.
    if (op_case.optional || kernels.all(op_case.op).empty()) continue;
    EXPECT_NE(reason->find("made for the cpu device"), std::string::npos) << *reason;
  }
}

}  // namespace
}  // namespace strata::testing
