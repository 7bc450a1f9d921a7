// Graphs of the cuda device: which work can be captured, and the state after a failed capture.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "ops/devices.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CudaGraph : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBytes = 4 * sizeof(float);

  [[nodiscard]] std::span<float> host() const { return {static_cast<float*>(host_.get()), 4}; }
  [[nodiscard]] std::array<float, 4> on_device(const std::shared_ptr<void>& memory) const {
    std::array<float, 4> values{};
    device_->copy_to_host(StreamKind::compute, values.data(), memory.get(), kBytes);
    return values;
  }
  void load() const { device_->copy_from_host(StreamKind::compute, a_.get(), host_.get(), kBytes); }
  void fill_host(float first) const {
    for (float& value : host()) value = first++;
  }

  std::unique_ptr<Device> device_ = make_device(STRATA_CUDA_PLUGIN);
  std::shared_ptr<void> host_ = device_->allocate_host(kBytes);
  std::shared_ptr<void> a_ = device_->allocate(kBytes);
  std::shared_ptr<void> b_ = device_->allocate(kBytes);
};

TEST_F(CudaGraph, DoesAllWorkOfTheDeviceAgainWithWhatMemoryHoldsThen) {
  ASSERT_EQ(device_->uncapturable(), std::nullopt);
  const auto reduce = [&] {
    const std::array<const void*, 2> sources{a_.get(), b_.get()};
    device_->reduce(StreamKind::compute, Reduction::sum, DType::f32, b_.get(), sources, 4);
  };
  reduce();
  fill_host(1);
  const auto graph = device_->capture([&] {
    load();
    device_->fill_zero(StreamKind::compute, b_.get(), kBytes);
    device_->copy_rows(StreamKind::compute, b_.get(), 8, a_.get(), 8, 4, 2);
    reduce();
    device_->copy(StreamKind::compute, a_.get(), b_.get(), 4);
  });
  EXPECT_THAT(on_device(b_), ElementsAre(0, 0, 0, 0)) << "it is recorded instead of done";
  for (const float first : {1.0F, 100.0F}) {
    fill_host(first);
    graph->launch({});
    device_->synchronize(StreamKind::compute);
    EXPECT_THAT(on_device(b_), ElementsAre(2 * first, first + 1, 2 * (first + 2), first + 3));
    EXPECT_THAT(on_device(a_), ElementsAre(2 * first, first + 1, first + 2, first + 3));
  }
}

TEST_F(CudaGraph, HasGraphsWhereTheOptionAllowsIt) {
  const auto without = make_device(STRATA_CUDA_PLUGIN, {{"graph", false}});
  EXPECT_THAT(without->uncapturable(), ::testing::Optional(HasSubstr("option 'graph' is false")));
  EXPECT_THAT([&] { static_cast<void>(without->capture([] {})); },
              ThrowsMessage<RuntimeError>(HasSubstr("option 'graph' is false")));
}

TEST_F(CudaGraph, RefusesWhatAGraphCannotHoldAndGoesOn) {
  std::array<float, 4> pageable{};
  const std::vector<std::pair<std::string, std::function<void()>>> refused = {
      {"a copy from host memory that is not pinned",
       [&] { device_->copy_from_host(StreamKind::compute, a_.get(), pageable.data(), kBytes); }},
      {"a copy to the host", [&] { device_->copy_to_host(StreamKind::compute, host_.get(), a_.get(), kBytes); }},
      {"an event", [&] { static_cast<void>(device_->record(StreamKind::compute)); }},
      {"a wait for an event",
       [&, event = device_->record(StreamKind::compute)] { device_->wait(StreamKind::compute, event); }},
      {"waiting for the stream", [&] { device_->synchronize(StreamKind::compute); }},
      {"a capture", [&] { static_cast<void>(device_->capture([] {})); }},
      {"out of order", [] { throw RuntimeError("out of order"); }}};
  for (const auto& [message, work] : refused) {
    SCOPED_TRACE(message);
    fill_host(7);
    const auto capture = [&, &each = work] {
      static_cast<void>(device_->capture([&] {
        load();
        each();
      }));
    };
    EXPECT_THAT(capture, ThrowsMessage<RuntimeError>(HasSubstr(message)));
    EXPECT_THAT(on_device(a_), ElementsAre(0, 0, 0, 0)) << "nothing of it was done";
  }
  device_->capture([&] { load(); })->launch({});
  EXPECT_THAT(on_device(a_), ElementsAre(7, 8, 9, 10));
}

#ifdef STRATA_CUDA_EMULATED
TEST_F(CudaGraph, IsGivenUpWhereMemoryIsAllocated) {
  EXPECT_THAT([&] { static_cast<void>(device_->capture([&] { static_cast<void>(device_->allocate(4)); })); },
              ThrowsMessage<RuntimeError>(HasSubstr("an allocation is not permitted in a capture")));
}
#endif

}  // namespace
}  // namespace strata::testing
