#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulate/kernel_cost.hpp"
#include "simulated_cluster.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using host::KernelWork;

host::DeviceDescription device() { return round_cluster(1).groups.front().device; }

KernelWork product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  KernelWork work{.name = "linear", .result_size = 4};
  work.flops = 2.0 * static_cast<double>(rows * columns * depth);
  work.bytes = 4.0 * static_cast<double>(rows * columns + rows * depth + columns * depth);
  work.product = host::ProductShape{1, rows, columns, depth};
  return work;
}

/// 100 units compute 100 tiles at once, so one tile more costs a whole wave.
TEST(KernelCost, ProductsRunInWholeWavesOfTiles) {
  host::DeviceDescription without_epilogue = device();
  without_epilogue.memory_bandwidth = 1e30;
  const double one = host::kernel_seconds(without_epilogue, product(1280, 1280, 4096));
  EXPECT_NEAR(one, 2.0 * 1280 * 1280 * 4096 / 100e12, 1e-12);
  EXPECT_NEAR(host::kernel_seconds(without_epilogue, product(1280, 1408, 4096)), 2 * one, 1e-12);
  EXPECT_NEAR(host::kernel_seconds(without_epilogue, product(1280, 2560, 4096)), 2 * one, 1e-12);
}

TEST(KernelCost, SmallProductsDivideTheirDepth) {
  host::DeviceDescription fast_memory = device();
  fast_memory.memory_bandwidth = 1e30;
  const double tile = 2.0 * 128 * 128 * 4096 / (100e12 / 100);
  EXPECT_NEAR(host::kernel_seconds(fast_memory, product(128, 128, 4096)), tile / 4, 1e-12);
}

TEST(KernelCost, ShallowProductsTakeTheTimeOfTheirTraffic) {
  const KernelWork work = product(4096, 4096, 32);
  EXPECT_NEAR(host::kernel_seconds(device(), work), work.bytes / 2e12, 1e-12);
}

TEST(KernelCost, MisalignedRowsSlowProductsDown) {
  host::DeviceDescription slow = device();
  slow.misaligned_factor = 2.5;
  EXPECT_EQ(host::kernel_seconds(slow, product(1280, 1280, 4096)),
            host::kernel_seconds(device(), product(1280, 1280, 4096)));
  EXPECT_GT(host::kernel_seconds(slow, product(1280, 1279, 4096)),
            2 * host::kernel_seconds(device(), product(1280, 1280, 4096)));
}

KernelWork attention(bool is_backward) {
  KernelWork work{.name = "attention", .result_size = 4};
  const double products = is_backward ? 5 : 2;
  work.flops = products * 2 * 64 * 2048.0 * 2048 * 128 / 2;
  work.bytes = 4 * 4 * 64 * 2048.0 * 128;
  work.attention = host::AttentionShape{64, 2048, 2048, 128, is_backward, false};
  return work;
}

TEST(KernelCost, FusedAttentionHasItsShareOfThePeak) {
  EXPECT_NEAR(host::kernel_seconds(device(), attention(false)), attention(false).flops / (100e12 * 0.6), 1e-12);
  EXPECT_NEAR(host::kernel_seconds(device(), attention(true)), attention(true).flops / (100e12 * 0.5), 1e-12);
}

/// All scores pass through memory at least twice.
TEST(KernelCost, UnfusedAttentionPaysForItsScores) {
  host::DeviceDescription unfused = device();
  unfused.fused_attention = false;
  const double scores = 64 * 2048.0 * 2048 * 4;
  EXPECT_GT(host::kernel_seconds(unfused, attention(false)),
            host::kernel_seconds(device(), attention(false)) + 2 * scores / 2e12);
}

TEST(KernelCost, MeasuredPointsCountFirst) {
  host::DeviceDescription measured = device();
  measured.points = {{.work = "gelu", .shape = {1000}, .seconds = 1e-3},
                     {.work = "gelu", .shape = {100000}, .seconds = 1e-1}};
  KernelWork work{.name = "gelu", .bytes = 1000};
  EXPECT_NEAR(host::kernel_seconds(measured, work), 1e-3, 1e-9);
  work.bytes = 10000;
  EXPECT_NEAR(host::kernel_seconds(measured, work), 1e-2, 1e-8);
  work.bytes = 1000000;
  EXPECT_NEAR(host::kernel_seconds(measured, work), 1, 1e-6);
  work.bytes = 1;
  EXPECT_NEAR(host::kernel_seconds(measured, work), 1e-3, 1e-9) << "less work than measured takes no less time";
  work.name = "tanh";
  EXPECT_NEAR(host::kernel_seconds(measured, work), 1 / 2e12, 1e-15);
}

/// The rate of a product lies between those of the shapes around it, and is nearly that of a near one.
TEST(KernelCost, ProductsHaveTheRatesOfMeasuredShapes) {
  host::DeviceDescription measured = device();
  measured.points = {{.work = "linear", .shape = {1, 100, 100, 100}, .seconds = 1e-3},
                     {.work = "linear", .shape = {1, 100, 400, 100}, .seconds = 2e-3}};
  EXPECT_NEAR(host::kernel_seconds(measured, product(100, 100, 100)), 1e-3, 1e-9);
  EXPECT_NEAR(host::kernel_seconds(measured, product(100, 400, 100)), 2e-3, 1e-9);
  EXPECT_NEAR(host::kernel_seconds(measured, product(100, 200, 100)), 2e-3 / std::sqrt(2), 1e-9);
  EXPECT_NEAR(host::kernel_seconds(measured, product(100, 102, 100)), 1.02e-3, 1e-5);
}

/// Two ranks share a CPU. Points of two busy ranks are as measured; others are in proportion.
TEST(KernelCost, RanksShareCores) {
  host::DeviceDescription shared = device();
  KernelWork work{.name = "gelu", .bytes = 2e12};
  EXPECT_NEAR(host::kernel_seconds(shared, work, 2), 2, 1e-9);
  shared.points = {{.work = "gelu", .shape = {2000000000000}, .busy = 2, .seconds = 3}};
  EXPECT_NEAR(host::kernel_seconds(shared, work, 2), 3, 1e-9);
  EXPECT_NEAR(host::kernel_seconds(shared, work, 4), 6, 1e-9);
}

TEST(KernelCost, NamesWhatADescriptionLacks) {
  host::DeviceDescription empty;
  empty.name = "bare";
  EXPECT_THROW((void)host::kernel_seconds(empty, product(8, 8, 8)), ConfigurationError);
}

/// A GPT-2 of width 16 with 2 heads, micro-batches of 2 sequences of 8: the sizes of one rank.
TEST(KernelWork, HasTheSizesOfOneRank) {
  const SmallStep step("[[strategy]]\nplugin = \"tensor\"\nsize = 2\n", 4, 2);
  const Program& program = step.compiled.programs.front();
  int products = 0;
  int attentions = 0;
  const auto forward = std::find_if(program.tasks.begin(), program.tasks.end(),
                                    [](const Task& task) { return task.kind == Task::Kind::forward; });
  for (const Instruction& instruction : forward->instructions) {
    if (!instruction.is<Compute>()) continue;
    const KernelWork work = host::kernel_work(*step.setup.ops, program, instruction);
    if (instruction.name == "h.0.mlp.c_fc" && work.product) {
      ++products;
      EXPECT_EQ(work.product->rows, 16);
      EXPECT_EQ(work.product->columns, 32);
      EXPECT_EQ(work.product->depth, 16);
      EXPECT_EQ(work.flops, 2.0 * 16 * 32 * 16);
    }
    if (work.attention && instruction.name == "h.0.attn") {
      ++attentions;
      EXPECT_EQ(work.attention->heads, 2);
      EXPECT_EQ(work.attention->queries, 8);
      EXPECT_EQ(work.attention->keys, 8);
      EXPECT_EQ(work.attention->head_size, 8);
      EXPECT_EQ(work.flops, 2.0 * 2 * 2 * 8 * 8 * 8 / 2);
    }
  }
  EXPECT_EQ(products, 1);
  EXPECT_EQ(attentions, 1);
}

}  // namespace
}  // namespace strata::testing
