#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "communicator/ranks.hpp"

namespace strata {
namespace {

using testing::DeviceKind;

MessageCall message(int peer, std::vector<int>& data, std::uint64_t id) {
  return {.peer = peer, .data = data.data(), .bytes = static_cast<std::int64_t>(data.size() * sizeof(int)), .id = id};
}

class Messages : public ::testing::TestWithParam<DeviceKind> {};

TEST_P(Messages, SendsDoNotWaitForTheirReceive) {
  std::vector<std::vector<int>> received(2);
  const bool in_any_order = testing::make_world(GetParam(), 2, 60)->limits().matches_messages_by_id;
  const auto errors =
      testing::run_ranks(2, 60, GetParam(), [&](Communicator& communicator, testing::HostDevice& device) {
        const int rank = communicator.rank();
        std::vector<int> first(100);
        std::vector<int> second(3, rank);
        std::iota(first.begin(), first.end(), 1000 * rank);
        std::vector<int>& into = received[static_cast<std::size_t>(rank)];
        into.resize(103);
        std::vector<int> head(3);
        std::vector<int> tail(100);
        // Both send twice before either receives, and receive in the other order where that may be.
        const auto a = communicator.send(message(1 - rank, first, 1));
        const auto b = communicator.send(message(1 - rank, second, 2));
        if (!in_any_order) communicator.receive(message(1 - rank, tail, 1))->wait();
        communicator.receive(message(1 - rank, head, 2))->wait();
        if (in_any_order) communicator.receive(message(1 - rank, tail, 1))->wait();
        device.synchronize(StreamKind::compute);
        std::copy(tail.begin(), tail.end(), std::copy(head.begin(), head.end(), into.begin()));
        a->wait();
        b->wait();
        device.synchronize(StreamKind::compute);
      });
  EXPECT_THAT(errors, ::testing::Each(""));
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<int> wanted(103, 1 - rank);
    std::iota(wanted.begin() + 3, wanted.end(), 1000 * (1 - rank));
    EXPECT_EQ(received[static_cast<std::size_t>(rank)], wanted);
  }
}

TEST_P(Messages, WithOneIdArriveInOrder) {
  std::vector<int> received;
  const auto errors =
      testing::run_ranks(2, 60, GetParam(), [&](Communicator& communicator, testing::HostDevice& device) {
        if (communicator.rank() == 0) {
          std::vector<std::vector<int>> data{{1}, {2}, {3}};
          std::vector<std::unique_ptr<Request>> requests;
          for (auto& values : data) requests.push_back(communicator.send(message(1, values, 5)));
          for (auto& request : requests) request->wait();
          device.synchronize(StreamKind::compute);
        } else {
          for (int i = 0; i < 3; ++i) {
            std::vector<int> into(1);
            communicator.receive(message(0, into, 5))->wait();
            device.synchronize(StreamKind::compute);
            received.push_back(into[0]);
          }
        }
      });
  EXPECT_THAT(errors, ::testing::Each(""));
  EXPECT_THAT(received, ::testing::ElementsAre(1, 2, 3));
}

TEST_P(Messages, PassACollectiveThatWaits) {
  // Rank 0 starts the collective before it sends; rank 1 joins it only after it has received.
  const auto errors =
      testing::run_ranks(2, 60, GetParam(), [&](Communicator& communicator, testing::HostDevice& device) {
        const int rank = communicator.rank();
        float value = 1;
        std::vector<int> data{42 * (1 - rank)};
        CollectiveCall call{
            .group = communicator.create_group({0, 1}), .input = &value, .output = &value, .elements = 1};
        if (rank == 0) {
          const auto collective = communicator.start(call);
          const auto request = communicator.send(message(1, data, 1));
          collective->wait();
          request->wait();
        } else {
          communicator.receive(message(0, data, 1))->wait();
          communicator.start(call)->wait();
        }
        device.synchronize(StreamKind::compute);
        if (data[0] != 42 || value != 2) throw RuntimeError("wrong values");
      });
  EXPECT_THAT(errors, ::testing::Each(""));
}

TEST_P(Messages, MayBeEmptyOrToOneself) {
  std::vector<int> into(2);
  const auto errors =
      testing::run_ranks(1, 60, GetParam(), [&](Communicator& communicator, testing::HostDevice& device) {
        std::vector<int> data{3, 4};
        std::vector<int> nothing;
        const auto a = communicator.send(message(0, data, 1));
        const auto b = communicator.send(message(0, nothing, 2));
        communicator.receive(message(0, into, 1))->wait();
        communicator.receive(message(0, nothing, 2))->wait();
        a->wait();
        b->wait();
        device.synchronize(StreamKind::compute);
      });
  EXPECT_THAT(errors, ::testing::Each(""));
  EXPECT_THAT(into, ::testing::ElementsAre(3, 4));
}

INSTANTIATE_TEST_SUITE_P(Devices, Messages, ::testing::Values(DeviceKind::host, DeviceKind::streams, DeviceKind::nccl),
                         [](const auto& info) { return testing::to_string(info.param); });

}  // namespace
}  // namespace strata
