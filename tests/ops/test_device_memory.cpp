// The functions of a device other than ops: memory, copies, reductions.

#include <gtest/gtest.h>

#include <cmath>

#include "conformance/check.hpp"
#include "ops/devices.hpp"
#include "strata/half.hpp"

namespace strata::testing {
namespace {

class DeviceMemory : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Device> device_ = make_device(GetParam());
};

std::string name_of(const ::testing::TestParamInfo<std::string>& test) { return test.param; }

std::vector<std::string> device_names() {
  std::vector<std::string> names = accelerators();
  names.insert(names.end(), {"reference", "cpu"});
  return names;
}
INSTANTIATE_TEST_SUITE_P(Devices, DeviceMemory, ::testing::ValuesIn(device_names()), name_of);

TEST_P(DeviceMemory, IsAlignedAndZero) { EXPECT_NO_THROW(host::try_memory(*device_)); }
TEST_P(DeviceMemory, CopiesAndClears) { EXPECT_NO_THROW(host::try_copies(*device_)); }
TEST_P(DeviceMemory, OrdersStreamsByEvents) { EXPECT_NO_THROW(host::try_streams(*device_)); }
TEST_P(DeviceMemory, ReducesEveryTypeInSourceOrder) { EXPECT_NO_THROW(host::try_reductions(*device_)); }

TEST_P(DeviceMemory, SaysWhatItIs) {
  EXPECT_FALSE(device_->description().empty());
  EXPECT_GT(device_->memory_bytes(), 0);
  EXPECT_EQ(device_->is_host_memory(), !GetParam().starts_with("cuda"));
  DeviceRequest shared;
  shared.ranks_on_host = 64;
  const auto one_of_many = make_device(GetParam(), {}, shared);
  EXPECT_LT(one_of_many->memory_bytes(), device_->memory_bytes() / 2);
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
