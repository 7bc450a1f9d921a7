#include <gtest/gtest.h>

#include <cmath>

#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "runtime/toy_device.hpp"
#include "runtime/toy_program.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

using strata::testing::ToyProgram;

/// One parameter "w" [6, 8], dealt over any axes, with a state.
Program program_of(const Mesh& mesh, const std::vector<AxisShard>& rows, const std::vector<AxisShard>& columns,
                   DType dtype = DType::f64) {
  ToyProgram toy{mesh};
  StoredParameter parameter;
  parameter.name = "w";
  parameter.initialization = Initialization::normal(0.5);
  parameter.dims = {{"row", 24, rows, false}, {"column", 32, columns, false}};
  const Shard shard(parameter, mesh, 0);
  parameter.value = toy.buffer("w", dtype, {shard.local_elements()}, true);
  parameter.states["momentum"] = toy.buffer("w.momentum", dtype, {shard.local_elements()}, true);
  toy.program.parameters.push_back(parameter);
  return toy.program;
}

/// The logical tensor, from all ranks' parts.
std::vector<double> whole(const Program& program, std::uint64_t seed) {
  const StoredParameter& parameter = program.parameters.front();
  std::vector<double> values(24 * 32, NAN);
  for (int rank = 0; rank < program.mesh.rank_count(); ++rank) {
    const std::vector<std::byte> local = initial_values(program, parameter, rank, seed);
    Shard(parameter, program.mesh, rank).gather(local.data(), values.data(), sizeof(double));
  }
  return values;
}

TEST(Initialize, DoesNotDependOnTheLayout) {
  const std::vector<double> expected = whole(program_of(Mesh(), {}, {}), 7);
  const Mesh mesh({{"a", 2}, {"b", 2}});
  EXPECT_EQ(whole(program_of(mesh, {}, {}), 7), expected);
  EXPECT_EQ(whole(program_of(mesh, {{"a"}}, {}), 7), expected);
  EXPECT_EQ(whole(program_of(mesh, {{"a"}}, {{"b", Distribution::zigzag}}), 7), expected);
  EXPECT_EQ(whole(program_of(mesh, {}, {{"a"}, {"b"}}), 7), expected);
}

TEST(Initialize, DependsOnSeedAndName) {
  Program program = program_of(Mesh(), {}, {});
  const std::vector<double> values = whole(program, 7);
  EXPECT_NE(whole(program, 8), values);
  program.parameters.front().name = "v";
  EXPECT_NE(whole(program, 7), values);
}

TEST(Initialize, HasTheAskedDistribution) {
  double mean = 0;
  double square = 0;
  const std::vector<double> values = whole(program_of(Mesh(), {}, {}), 7);
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) square += (value - mean) * (value - mean) / static_cast<double>(values.size());
  EXPECT_NEAR(mean, 0, 4 * 0.5 / std::sqrt(768));
  EXPECT_NEAR(std::sqrt(square), 0.5, 0.06);
  Program program = program_of(Mesh(), {}, {});
  program.parameters.front().initialization = Initialization::constant(1.5);
  EXPECT_EQ(whole(program, 7), std::vector<double>(24 * 32, 1.5));
}

TEST(Initialize, ConvertsToTheBuffersType) {
  const std::vector<double> expected = whole(program_of(Mesh(), {}, {}), 7);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Program program = program_of(Mesh(), {}, {}, dtype);
    const std::vector<std::byte> values = initial_values(program, program.parameters.front(), 0, 7);
    for (std::int64_t i = 0; i < 24 * 32; ++i) {
      const double precision = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
      const double value = expected[static_cast<std::size_t>(i)];
      // Of numbers below 2^-14, f16 keeps multiples of 2^-24.
      ASSERT_NEAR(load_element(dtype, values.data(), i), value, std::fabs(value) * precision + 0x1p-25);
    }
  }
}

TEST(Initialize, SetsParametersAndClearsStates) {
  const Program program = program_of(Mesh(), {}, {});
  const StoredParameter& parameter = program.parameters.front();
  const MemoryPlan plan = plan_memory(program);
  local::LocalWorld world(1, 60);
  strata::testing::HostDevice device;
  const auto communicator = world.connect(0, device);
  Executor executor(program, plan, 0, 7, device, *communicator, std::make_shared<Arena>(device, plan.arena_bytes));
  std::vector<double> values(24 * 32, 3.0);
  executor.write(parameter.states.at("momentum"), values.data());
  initialize(executor, 7);
  executor.read(parameter.value, values.data());
  EXPECT_EQ(values, whole(program, 7));
  executor.read(parameter.states.at("momentum"), values.data());
  EXPECT_EQ(values, std::vector<double>(24 * 32, 0.0));
}

TEST(Elements, EveryF16AndBf16SurvivesTheWayThroughF64) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const std::uint16_t given = static_cast<std::uint16_t>(bits);
      const double value = load_element(dtype, &given, 0);
      std::uint16_t back = 0;
      store_element(dtype, &back, 0, value);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(load_element(dtype, &back, 0)));
      } else {
        ASSERT_EQ(back, given) << to_string(dtype) << " " << value;
      }
    }
  }
}

TEST(Elements, AreRoundedToTheNearestAndTiesToEven) {
  const auto stored = [](DType dtype, double value) {
    std::uint16_t bits = 0;
    store_element(dtype, &bits, 0, value);
    return load_element(dtype, &bits, 0);
  };
  EXPECT_EQ(stored(DType::f16, 1 + 0x1p-11), 1);
  EXPECT_EQ(stored(DType::f16, 1 + 0x1.8p-10), 1 + 0x1p-9);
  EXPECT_EQ(stored(DType::f16, -0x1.8p-24), -0x1p-23);
  EXPECT_EQ(stored(DType::f16, 65519), 65504);
  EXPECT_EQ(stored(DType::f16, 65520), HUGE_VAL);
  EXPECT_EQ(stored(DType::bf16, 1 + 0x1p-8), 1);
  EXPECT_EQ(stored(DType::bf16, 1 + 0x1.8p-7), 1 + 0x1p-6);
}

}  // namespace
}  // namespace strata::host
