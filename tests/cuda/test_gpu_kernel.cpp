// GPU kernels of other plugins: what they can read of the GPU and of the step. The emulator uses host memory, so the
// test can read it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "ops/devices.hpp"
#include "strata/error.hpp"
#include "strata/gpu_kernel.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr const char* kEmulated = "cuda_emulated";
constexpr const char* kOrigin = "library test";

OpInstance flat_instance(const std::string& op, int operands) {
  const OperandDescription flat{DType::f32, {"flat"}, {4}};
  OpInstance instance;
  instance.op = op;
  instance.name = "x";
  instance.operands.assign(static_cast<std::size_t>(operands), flat);
  instance.results = {flat};
  instance.index_maps["flat"] = IndexMap::whole(4);
  return instance;
}

/// A run with the emulated device and kernels of a library.
class GpuKernel : public ::testing::Test {
 protected:
  GpuKernel() {
    register_core(ops_, kernels_);
    const DeviceFactory& factory = device_factory(kEmulated);
    Registration device(ops_, kernels_, std::string("device ") + kEmulated);
    factory.provide(device, Options(factory.options(), {}));
  }

  void add(KernelDefinition kernel) {
    kernel.runtime = kEmulated;
    Registration(ops_, kernels_, kOrigin).add(std::move(kernel));
  }
  [[nodiscard]] std::unique_ptr<Device> device(std::int64_t index = 0) const {
    return make_device(kEmulated, {{"index", index}}, {.kernels = &kernels_});
  }

  OpRegistry ops_;
  KernelRegistry kernels_;
};

TEST_F(GpuKernel, KnowsTheGpuTheStreamAndTheStep) {
  std::vector<GpuDescription> gpus;
  std::vector<StepValues> steps;
  std::vector<void*> streams;
  add({.op = "probe",
       .signature = {"t", "t"},
       .prepare = [&](const OpInstance& /*op*/, const KernelEnvironment& environment) -> PreparedKernel {
         const auto& gpu = dynamic_cast<const GpuEnvironment&>(environment);
         EXPECT_EQ(gpu.runtime(), kEmulated);
         gpus.push_back({gpu.ordinal(), gpu.compute_capability_major(), gpu.compute_capability_minor(),
                         gpu.multiprocessors(), gpu.shared_bytes_per_block(), gpu.step_values()});
         return {[&, step = gpu.step_values()](const KernelArguments& arguments) {
           steps.push_back(*step);
           streams.push_back(arguments.stream);
         }};
       }});
  const std::array devices{device(0), device(1)};
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const auto& gpu = devices[index];
    const auto kernel = gpu->prepare(flat_instance("probe", 1));
    kernel->launch({{}, {}, nullptr, {.step = 7, .learning_rate = 0.5, .loss_scale = 8, .skipped_steps = 3}});
    kernel->launch({{}, {}, nullptr, {.step = 8, .micro_batch = 5, .skipped_steps = 3}});
    EXPECT_EQ(gpus.back().ordinal, static_cast<int>(index));
  }
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].major, 8);
  EXPECT_EQ(gpus[0].minor, 0);
  EXPECT_EQ(gpus[0].multiprocessors, 4);
  EXPECT_EQ(gpus[0].shared_bytes_per_block, std::size_t{163} << 10U);
  EXPECT_NE(gpus[0].step_values, gpus[1].step_values) << "each device has its own";
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[0], (StepValues{.step = 7, .updates = 5, .learning_rate = 0.5, .loss_scale = 8}));
  EXPECT_EQ(steps[1], (StepValues{.step = 8, .updates = 6, .learning_rate = 0, .loss_scale = 1}));
  EXPECT_NE(streams[0], nullptr);
  EXPECT_EQ(streams[0], streams[1]);
  EXPECT_NE(streams[0], streams[2]);
}

TEST_F(GpuKernel, ReplacesTheDevicesOwnIfItsRankIsHigher) {
  const OpInstance add_flat = flat_instance("add", 2);
  EXPECT_EQ(device()->kernel_choice(add_flat)->origin, "device cuda_emulated");
  add({.op = "add",
       .signature = {"tt", "t", false, {DType::f32}},
       .rank = kStandardRank + 1,
       .prepare = [](const OpInstance& op, const KernelEnvironment&) -> PreparedKernel {
         return {[count = kernels::elements(op.results[0])](const KernelArguments& arguments) {
           for (std::int64_t i = 0; i < count; ++i)
             kernels::out<float>(arguments, 0)[i] = 40.0F + static_cast<float>(i);
         }};
       }});
  OpInstance in_bf16 = add_flat;
  for (OperandDescription& each : in_bf16.operands) each.dtype = DType::bf16;
  in_bf16.results[0].dtype = DType::bf16;
  const auto gpu = device();
  EXPECT_EQ(gpu->kernel_choice(in_bf16)->origin, "device cuda_emulated") << "the library's takes f32";
  EXPECT_EQ(gpu->kernel_choice(add_flat)->origin, kOrigin);
  EXPECT_FALSE(gpu->kernel_choice(add_flat)->is_last_resort);
  const auto memory = gpu->allocate(16);
  const std::array<const void*, 2> operands{memory.get(), memory.get()};
  const std::array<void*, 1> results{memory.get()};
  gpu->prepare(add_flat)->launch({operands, results, nullptr, {}});
  std::array<float, 4> found{};
  gpu->copy_to_host(StreamKind::compute, found.data(), memory.get(), 16);
  EXPECT_THAT(found, ::testing::ElementsAre(40, 41, 42, 43));
}

TEST_F(GpuKernel, OfTheDeviceRunsOnNoOther) {
  const GpuEnvironment other({}, kEmulated);
  const KernelSelector selector("another device", kernels_, other);
  EXPECT_THAT(selector.unsupported(flat_instance("add", 2)), Optional(HasSubstr("made for the cuda device")));
  const GpuEnvironment gpu({});
  EXPECT_EQ(gpu.runtime(), "cuda");
  EXPECT_THAT(KernelSelector("another device", kernels_, gpu).unsupported(flat_instance("add", 2)),
              Optional(HasSubstr("has no kernel for op 'add'")));
}

TEST_F(GpuKernel, IsNamedWhereItThrows) {
  add({.op = "probe",
       .signature = {"t", "t"},
       .prepare = [](const OpInstance& /*op*/, const KernelEnvironment& /*environment*/) -> PreparedKernel {
         return {[](const KernelArguments&) { throw RuntimeError("no such tile"); }};
       }});
  const auto kernel = device()->prepare(flat_instance("probe", 1));
  EXPECT_THAT(
      [&] { kernel->launch({}); },
      ::testing::ThrowsMessage<RuntimeError>(HasSubstr(
          "the cuda device's 'probe' (x): the kernel of library test for op 'probe': hook 'launch': no such tile")));
}

TEST_F(GpuKernel, OfAnActivationIsThereForThoseThatAreListed) {
  OpInstance instance = flat_instance("activation", 1);
  instance.attributes.set("kind", std::string("no_such_function"));
  EXPECT_THAT(device()->unsupported(instance),
              Optional(HasSubstr(
                  "has no kernel for 'no_such_function'; accepted: gelu, gelu_tanh, relu, sigmoid, silu, tanh")));
}

TEST_F(GpuKernel, NeedsTheKernelsOfTheRun) {
  const DeviceFactory& factory = device_factory(kEmulated);
  EXPECT_THROW(static_cast<void>(factory.create(Options(factory.options(), {}), {})), VerificationError);
}

}  // namespace
}  // namespace strata::testing
