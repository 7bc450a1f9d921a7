#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "communicator/ranks.hpp"

namespace strata {
namespace {

using testing::DeviceKind;
using Bytes = std::vector<std::byte>;

/// One collective on some ranks. Every rank knows all values, and so the result.
struct Case {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  bool in_place = false;
  int ranks = 1;
};

double value_of(int rank, std::int64_t index) {
  return std::sin(static_cast<double>(index) * 0.7 + rank * 1.3) * (1 + rank);
}

void store(DType dtype, Bytes& bytes, std::int64_t index, double value) {
  std::byte* place = bytes.data() + index * static_cast<std::int64_t>(size_of(dtype));
  if (dtype == DType::f64) std::memcpy(place, &value, sizeof value);
  const float narrow = static_cast<float>(value);
  if (dtype == DType::f32) std::memcpy(place, &narrow, sizeof narrow);
  const std::uint16_t half = testing::to_bf16(narrow);
  if (dtype == DType::bf16) std::memcpy(place, &half, sizeof half);
}

Bytes values(const Case& test, int rank) {
  Bytes bytes(static_cast<std::size_t>(test.elements) * size_of(test.dtype));
  for (std::int64_t i = 0; i < test.elements; ++i) store(test.dtype, bytes, i, value_of(rank, i));
  return bytes;
}

/// All inputs reduced in rank order, as one call would do it.
Bytes reduced(const Case& test) {
  std::vector<Bytes> inputs;
  std::vector<const void*> sources;
  for (int rank = 0; rank < test.ranks; ++rank) inputs.push_back(values(test, rank));
  for (const Bytes& input : inputs) sources.push_back(input.data());
  Bytes result(inputs[0].size());
  testing::HostDevice().reduce(StreamKind::compute, test.reduction, test.dtype, result.data(), sources, test.elements);
  return result;
}

Bytes expected(const Case& test, int rank, int root) {
  Bytes result;
  const auto append = [&](const Bytes& from, std::int64_t begin, std::int64_t count) {
    const auto size = static_cast<std::int64_t>(size_of(test.dtype));
    result.insert(result.end(), from.begin() + begin * size, from.begin() + (begin + count) * size);
  };
  const std::int64_t piece = test.elements / test.ranks;
  switch (test.kind) {
    case CollectiveKind::all_reduce:
      return reduced(test);
    case CollectiveKind::reduce_scatter:
      append(reduced(test), piece * rank, piece);
      break;
    case CollectiveKind::all_gather:
      for (int peer = 0; peer < test.ranks; ++peer) append(values(test, peer), 0, test.elements);
      break;
    case CollectiveKind::all_to_all:
      for (int peer = 0; peer < test.ranks; ++peer) append(values(test, peer), piece * rank, piece);
      break;
    case CollectiveKind::broadcast:
      return values(test, root);
  }
  return result;
}

/// The output of every rank.
std::vector<Bytes> run(const Case& test, DeviceKind device_kind) {
  std::vector<Bytes> outputs(static_cast<std::size_t>(test.ranks));
  const int root = test.ranks - 1;
  const auto errors =
      testing::run_ranks(test.ranks, 60, device_kind, [&](Communicator& communicator, testing::HostDevice& device) {
        const int rank = communicator.rank();
        const Bytes data = values(test, rank);
        Bytes input(data.size());
        Bytes output(expected(test, rank, root).size());
        const std::string name = "test";
        CollectiveCall call{.kind = test.kind, .reduction = test.reduction, .dtype = test.dtype, .root = root};
        call.group = communicator.create_group(testing::all_ranks(test.ranks));
        call.elements = test.elements;
        call.input = test.in_place ? output.data() : input.data();
        call.output = output.data();
        call.id = 7;
        call.name = &name;
        // The compute stream provides the values, late on a device with streams.
        device.copy(StreamKind::compute, test.in_place ? output.data() : input.data(), data.data(),
                    static_cast<std::int64_t>(data.size()));
        communicator.start(call)->wait();
        device.synchronize(StreamKind::compute);
        outputs[static_cast<std::size_t>(rank)] = output;
      });
  EXPECT_THAT(errors, ::testing::Each(""));
  return outputs;
}

std::vector<Case> all_cases(CollectiveKind kind, int ranks) {
  std::vector<Case> cases;
  const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
  const bool may_be_in_place = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast;
  const bool pieces = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      if (!reduces && reduction == Reduction::max) continue;
      for (const std::int64_t elements : {0, 1, 2, 63, 64, 65, 1000, 4099}) {
        for (const bool in_place : {false, true}) {
          if (in_place && !may_be_in_place) continue;
          cases.push_back({kind, reduction, dtype, pieces ? elements * ranks : elements, in_place, ranks});
        }
      }
    }
  }
  return cases;
}

class Collectives : public ::testing::TestWithParam<std::tuple<CollectiveKind, int, DeviceKind>> {};

TEST_P(Collectives, GiveEveryRankItsPartOfTheNaiveResult) {
  const auto [kind, ranks, device] = GetParam();
  for (const Case& test : all_cases(kind, ranks)) {
    SCOPED_TRACE(std::to_string(test.elements) + " " + std::string(to_string(test.dtype)) + " " +
                 std::string(to_string(test.reduction)) + (test.in_place ? " in place" : ""));
    const std::vector<Bytes> outputs = run(test, device);
    for (int rank = 0; rank < ranks; ++rank) {
      // The results are bitwise equal, because reductions add in the order of ranks.
      ASSERT_TRUE(outputs[static_cast<std::size_t>(rank)] == expected(test, rank, ranks - 1)) << "rank " << rank;
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<Collectives::ParamType>& info) {
  const auto [kind, ranks, device] = info.param;
  return std::string(to_string(kind)) + "_" + std::to_string(ranks) + "_" + testing::to_string(device);
}

const auto kAllKinds =
    ::testing::Values(CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                      CollectiveKind::all_to_all, CollectiveKind::broadcast);

INSTANTIATE_TEST_SUITE_P(Host, Collectives,
                         ::testing::Combine(kAllKinds, ::testing::Range(1, 6), ::testing::Values(DeviceKind::host)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Streams, Collectives,
                         ::testing::Combine(kAllKinds, ::testing::Values(3), ::testing::Values(DeviceKind::streams)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Nccl, Collectives,
                         ::testing::Combine(kAllKinds, ::testing::Values(1, 3), ::testing::Values(DeviceKind::nccl)),
                         test_name);

class CollectivesInGroups : public ::testing::TestWithParam<DeviceKind> {};

TEST_P(CollectivesInGroups, FollowTheOrderOfTheGroup) {
  // Ranks 2 and 0, in that order, and rank 1 alone.
  std::vector<std::vector<float>> outputs(3);
  const auto errors =
      testing::run_ranks(3, 60, GetParam(), [&](Communicator& communicator, testing::HostDevice& device) {
        const int rank = communicator.rank();
        const std::vector<int> members = rank == 1 ? std::vector<int>{1} : std::vector<int>{2, 0};
        const float mine = static_cast<float>(rank);
        std::vector<float>& output = outputs[static_cast<std::size_t>(rank)];
        output.resize(members.size());
        CollectiveCall call{.kind = CollectiveKind::all_gather, .group = communicator.create_group(members)};
        call.input = &mine;
        call.output = output.data();
        call.elements = 1;
        communicator.start(call)->wait();
        device.synchronize(StreamKind::compute);
      });
  EXPECT_THAT(errors, ::testing::Each(""));
  EXPECT_THAT(outputs[0], ::testing::ElementsAre(2, 0));
  EXPECT_THAT(outputs[1], ::testing::ElementsAre(1));
  EXPECT_THAT(outputs[2], ::testing::ElementsAre(2, 0));
}

TEST_P(CollectivesInGroups, MayGatherAndScatterInTheirOwnPlace) {
  std::vector<std::vector<double>> gathered(2, std::vector<double>(2));
  std::vector<std::vector<double>> scattered(2);
  const auto errors =
      testing::run_ranks(2, 60, GetParam(), [&](Communicator& communicator, testing::HostDevice& device) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        const int group = communicator.create_group({0, 1});
        gathered[rank][rank] = 10.0 + static_cast<double>(rank);
        CollectiveCall call{.kind = CollectiveKind::all_gather, .dtype = DType::f64, .group = group};
        call.input = &gathered[rank][rank];
        call.output = gathered[rank].data();
        call.elements = 1;
        communicator.start(call)->wait();
        device.synchronize(StreamKind::compute);
        scattered[rank] = gathered[rank];
        call.kind = CollectiveKind::reduce_scatter;
        call.input = scattered[rank].data();
        call.output = &scattered[rank][rank];
        call.elements = 2;
        communicator.start(call)->wait();
        device.synchronize(StreamKind::compute);
      });
  EXPECT_THAT(errors, ::testing::Each(""));
  for (const auto& values : gathered) EXPECT_THAT(values, ::testing::ElementsAre(10, 11));
  EXPECT_THAT(scattered[0], ::testing::ElementsAre(20, 11));
  EXPECT_THAT(scattered[1], ::testing::ElementsAre(10, 22));
}

INSTANTIATE_TEST_SUITE_P(Devices, CollectivesInGroups,
                         ::testing::Values(DeviceKind::host, DeviceKind::streams, DeviceKind::nccl),
                         [](const auto& info) { return testing::to_string(info.param); });

}  // namespace
}  // namespace strata
