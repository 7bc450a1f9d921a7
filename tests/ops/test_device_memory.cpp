// The functions of a device other than ops: memory, copies, reductions.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ops/devices.hpp"
#include "ops/op_case.hpp"
#include "strata/half.hpp"
#include "train/verify/graph_evaluator.hpp"

namespace strata::testing {
namespace {

using host::download;
using host::upload;

constexpr StreamKind kStream = StreamKind::communication;

class DeviceMemory : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Device> device_ = make_device(GetParam());

  std::shared_ptr<void> filled(DType dtype, const std::vector<double>& values) {
    auto memory = device_->allocate(static_cast<std::int64_t>(values.size() * size_of(dtype)));
    upload(*device_, memory.get(), dtype, values);
    return memory;
  }
  std::vector<double> contents(const std::shared_ptr<void>& memory, DType dtype, std::int64_t count) {
    return download(*device_, memory.get(), dtype, count);
  }
};

std::string name_of(const ::testing::TestParamInfo<std::string>& test) { return test.param; }

std::vector<std::string> device_names() {
  std::vector<std::string> names = accelerators();
  names.insert(names.end(), {"reference", "cpu"});
  return names;
}
INSTANTIATE_TEST_SUITE_P(Devices, DeviceMemory, ::testing::ValuesIn(device_names()), name_of);

TEST_P(DeviceMemory, IsAlignedAndZero) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4096}, std::int64_t{9} << 20U}) {
    const auto memory = device_->allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0U);
    std::vector<unsigned char> found(static_cast<std::size_t>(bytes), 1);
    device_->copy_to_host(kStream, found.data(), memory.get(), bytes);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0), 0);
  }
}

TEST_P(DeviceMemory, SaysWhatItIs) {
  EXPECT_FALSE(device_->description().empty());
  EXPECT_GT(device_->memory_bytes(), 0);
  EXPECT_EQ(device_->is_host_memory(), !GetParam().starts_with("cuda"));
  DeviceRequest shared;
  shared.ranks_on_host = 64;
  const auto one_of_many = make_device(GetParam(), {}, shared);
  EXPECT_LT(one_of_many->memory_bytes(), device_->memory_bytes() / 2);
}

TEST_P(DeviceMemory, CopiesRows) {
  const auto source = filled(DType::i32, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto destination = filled(DType::i32, std::vector<double>(8, -1));
  // The middle two columns of [3, 4] into the left two of [3, 3] (the last row is cut short).
  device_->copy_rows(kStream, destination.get(), 12, static_cast<const char*>(source.get()) + 4, 16, 8, 3);
  EXPECT_EQ(contents(destination, DType::i32, 8), (std::vector<double>{1, 2, -1, 5, 6, -1, 9, 10}));
  device_->copy_rows(kStream, destination.get(), 8, source.get(), 8, 8, 4);
  EXPECT_EQ(contents(destination, DType::i32, 8), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(DeviceMemory, CopiesAndClears) {
  const auto source = filled(DType::f32, {1, 2, 3, 4});
  const auto destination = filled(DType::f32, {9, 9, 9, 9});
  device_->copy(kStream, destination.get(), source.get(), 12);
  EXPECT_EQ(contents(destination, DType::f32, 4), (std::vector<double>{1, 2, 3, 9}));
  device_->fill_zero(kStream, destination.get(), 8);
  EXPECT_EQ(contents(destination, DType::f32, 4), (std::vector<double>{0, 0, 3, 9}));
}

TEST_P(DeviceMemory, NeedsEventsOnlyOutsideOfHostMemory) {
  const auto event = device_->record(StreamKind::compute);
  EXPECT_EQ(event == nullptr, device_->is_host_memory());
  device_->wait(kStream, event);
  device_->wait(kStream, nullptr);
  device_->synchronize(kStream);
}

TEST_P(DeviceMemory, OrdersStreamsByEvents) {
  constexpr std::int64_t kCount = 3'000'001;
  std::vector<std::int32_t> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 1);
  const std::int64_t bytes = kCount * 4;
  const auto first = device_->allocate(bytes);
  const auto second = device_->allocate(bytes);
  device_->copy_from_host(StreamKind::transfer, first.get(), numbers.data(), bytes);
  // The caller may change its host memory now.
  std::fill(numbers.begin(), numbers.end(), 0);
  device_->wait(StreamKind::compute, device_->record(StreamKind::transfer));
  device_->copy(StreamKind::compute, second.get(), first.get(), bytes);
  device_->wait(StreamKind::communication, device_->record(StreamKind::compute));
  device_->copy_to_host(StreamKind::communication, numbers.data(), second.get(), bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], static_cast<std::int32_t>(i) + 1);
}

TEST_P(DeviceMemory, ReducesInSourceOrder) {
  // In f32, 2^24 + 1 - 2^24 is 0 in this order and 1 in another order.
  const auto a = filled(DType::f32, {0x1p24, 1, 5});
  const auto b = filled(DType::f32, {1, 2, -7});
  const auto c = filled(DType::f32, {-0x1p24, 4, 6});
  const auto result = filled(DType::f32, {9, 9, 9});
  const void* const order[] = {a.get(), b.get(), c.get()};
  device_->reduce(kStream, Reduction::sum, DType::f32, result.get(), order, 3);
  EXPECT_EQ(contents(result, DType::f32, 3), (std::vector<double>{0, 7, 4}));
  const void* const other_order[] = {a.get(), c.get(), b.get()};
  device_->reduce(kStream, Reduction::sum, DType::f32, result.get(), other_order, 3);
  EXPECT_EQ(contents(result, DType::f32, 3), (std::vector<double>{1, 7, 4}));
  device_->reduce(kStream, Reduction::max, DType::f32, result.get(), order, 3);
  EXPECT_EQ(contents(result, DType::f32, 3), (std::vector<double>{0x1p24, 4, 6}));
}

TEST_P(DeviceMemory, ReducesEveryTypeInPlaceOfAnySource) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64}) {
    for (const std::size_t in_place : {0U, 1U, 2U}) {
      std::vector<std::vector<double>> values(3);
      std::vector<std::shared_ptr<void>> memory;
      std::vector<const void*> sources;
      for (std::size_t j = 0; j < 3; ++j) {
        for (int i = 0; i < 1501; ++i) values[j].push_back((i * 7 + static_cast<int>(j) * 5) % 23 - 11);
        memory.push_back(filled(dtype, values[j]));
        sources.push_back(memory.back().get());
      }
      device_->reduce(kStream, Reduction::sum, dtype, memory[in_place].get(), sources, 1501);
      const auto found = contents(memory[in_place], dtype, 1501);
      for (std::size_t i = 0; i < 1501; ++i) {
        ASSERT_EQ(found[i], values[0][i] + values[1][i] + values[2][i]) << to_string(dtype) << " element " << i;
      }
    }
  }
}

TEST_P(DeviceMemory, ReducesShortTypesInF32) {
  // 1 + 2^-8 + 2^-8 is 1 if each sum is rounded to bf16, and 1 + 2^-7 if the last one is.
  const auto a = filled(DType::bf16, {1});
  const auto b = filled(DType::bf16, {0x1p-8});
  const auto result = filled(DType::bf16, {0});
  const void* const sources[] = {a.get(), b.get(), b.get()};
  device_->reduce(kStream, Reduction::sum, DType::bf16, result.get(), sources, 1);
  EXPECT_EQ(contents(result, DType::bf16, 1), std::vector<double>{1 + 0x1p-7});
}

/// Every f16 and bf16 number is unchanged by conversion to f32 and back. Halves round to even.
TEST(ShortFloats, ConvertAndRound) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(from_f16(half))) {
      EXPECT_EQ(to_f16(from_f16(half)), half);
    }
    if (!std::isnan(from_bf16(half))) {
      EXPECT_EQ(to_bf16(from_bf16(half)), half);
    }
  }
  EXPECT_TRUE(std::isnan(from_f16(to_f16(NAN))));
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(NAN))));
  EXPECT_EQ(from_f16(to_f16(1 + 0x1p-11F)), 1.0F);
  EXPECT_EQ(from_f16(to_f16(1 + 3 * 0x1p-11F)), 1 + 0x1p-9F);
  EXPECT_EQ(from_f16(to_f16(65519.9F)), 65504.0F);
  EXPECT_TRUE(std::isinf(from_f16(to_f16(65520.0F))));
  EXPECT_EQ(from_f16(to_f16(0x1p-25F)), 0.0F);
  EXPECT_EQ(from_f16(to_f16(3 * 0x1p-25F)), 0x1p-23F);
  EXPECT_EQ(from_bf16(to_bf16(1 + 0x1p-8F)), 1.0F);
  EXPECT_EQ(from_bf16(to_bf16(1 + 3 * 0x1p-8F)), 1 + 0x1p-6F);
}

}  // namespace
}  // namespace strata::testing
