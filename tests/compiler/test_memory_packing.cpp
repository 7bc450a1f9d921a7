#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/memory/memory_packing.hpp"
#include "random_programs.hpp"

namespace strata::host::test {
namespace {

constexpr std::int64_t kAlignment = 256;

bool overlap(const Lifetime& a, std::int64_t offset_a, const Lifetime& b, std::int64_t offset_b) {
  return a.begin <= b.end && b.begin <= a.end && offset_a < offset_b + b.bytes && offset_b < offset_a + a.bytes;
}

void expect_valid(const std::vector<Lifetime>& blocks, const MemoryPacking& packing) {
  ASSERT_EQ(packing.offsets.size(), blocks.size());
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(packing.offsets[i] % kAlignment, 0);
    EXPECT_GE(packing.offsets[i], 0);
    highest = std::max(highest, packing.offsets[i] + blocks[i].bytes);
    for (std::size_t j = 0; j < i; ++j) {
      ASSERT_FALSE(overlap(blocks[i], packing.offsets[i], blocks[j], packing.offsets[j])) << i << " and " << j;
    }
  }
  EXPECT_EQ(packing.bytes, highest);
}

MemoryPacking pack(const std::vector<Lifetime>& lifetimes) {
  std::vector<MemoryBlock> blocks;
  for (const Lifetime& each : lifetimes) blocks.push_back({each.bytes, {{each.begin, each.end}}});
  return pack_memory(blocks, kAlignment);
}

/// The forward pass allocates blocks, half of which stay for the backward pass. It frees them in reverse order.
std::vector<Lifetime> training_steps(int micro_batches, int layers, std::mt19937& random) {
  std::vector<Lifetime> blocks;
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 8; ++i) sizes.push_back(1000 + static_cast<std::int64_t>(pick(random, 100'000)));
  const int forward = layers * 8;
  for (int step = 0; step < micro_batches; ++step) {
    const int start = step * 2 * forward;
    for (int i = 0; i < forward; ++i) {
      const int saved_until = start + 2 * forward - 1 - i;
      const int end = i % 2 == 0 ? saved_until : start + i + 1 + static_cast<int>(pick(random, 3));
      blocks.push_back({sizes[static_cast<std::size_t>(i % 8)], start + i, end});
    }
    for (int i = 0; i < forward; ++i) {
      const int begin = start + forward + i;
      blocks.push_back(
          {sizes[static_cast<std::size_t>((i + 3) % 8)], begin, begin + 1 + static_cast<int>(pick(random, 2))});
    }
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; });
  return blocks;
}

TEST(PackMemory, RandomBlocks) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    std::vector<Lifetime> blocks;
    for (int i = 0; i < 300; ++i) {
      const int begin = static_cast<int>(pick(random, 200));
      const int length = static_cast<int>(pick(random, 1 + (1U << pick(random, 7))));
      blocks.push_back({1 + static_cast<std::int64_t>(pick(random, std::size_t{1} << (8 + pick(random, 8)))), begin,
                        begin + length});
    }
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; });
    const MemoryPacking packing = pack(blocks);
    expect_valid(blocks, packing);
    const auto least = static_cast<double>(find_peak(blocks, kAlignment).bytes);
    EXPECT_LE(static_cast<double>(packing.bytes), 1.2 * least) << "seed " << seed;
  }
}

TEST(PackMemory, TrainingSteps) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Lifetime> blocks = training_steps(2, 6, random);
    const MemoryPacking packing = pack(blocks);
    expect_valid(blocks, packing);
    const auto least = static_cast<double>(find_peak(blocks, kAlignment).bytes);
    EXPECT_LE(static_cast<double>(packing.bytes), 1.1 * least) << "seed " << seed;
  }
}

TEST(PackMemory, FiftyThousandBlocks) {
  std::mt19937 random(1);
  const std::vector<Lifetime> blocks = training_steps(64, 49, random);
  ASSERT_GE(blocks.size(), 50'000U);
  const MemoryPacking packing = pack(blocks);
  const auto least = static_cast<double>(find_peak(blocks, kAlignment).bytes);
  EXPECT_LE(static_cast<double>(packing.bytes), 1.1 * least);
}

TEST(PackMemory, NothingAndOne) {
  EXPECT_EQ(pack({}).bytes, 0);
  EXPECT_EQ(pack({{100, 0, 0}}).bytes, 100);
  EXPECT_EQ(find_peak({{100, 0, 0}, {100, 1, 2}, {300, 2, 3}}, kAlignment).bytes, 256 + 512);
}

/// Two buffers of which each has its instances between those of the other.
TEST(PackMemory, BlocksShareMemoryInTurns) {
  const std::vector<MemoryBlock> blocks{{512, {{0, 1}, {4, 5}, {8, 9}}}, {512, {{2, 3}, {6, 7}}}, {256, {{3, 4}}}};
  const MemoryPacking packing = pack_memory(blocks, kAlignment);
  EXPECT_EQ(packing.bytes, 512 + 256);
  EXPECT_EQ(packing.offsets[0], packing.offsets[1]);
  EXPECT_NE(packing.offsets[0], packing.offsets[2]);
}

}  // namespace
}  // namespace strata::host::test
