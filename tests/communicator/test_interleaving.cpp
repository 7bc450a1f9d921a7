#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>

#include "communicator/ranks.hpp"

namespace strata {
namespace {

using testing::DeviceKind;

/// One communication of a random program that all ranks know.
struct Step {
  bool collective = true;
  std::vector<int> ranks;  // group, or sender and receiver
  std::int64_t elements = 0;
};

constexpr int kRanks = 4;

std::vector<Step> random_program(std::uint32_t seed, int length) {
  std::mt19937 random(seed);
  std::vector<Step> program;
  for (int i = 0; i < length; ++i) {
    std::vector<int> ranks = testing::all_ranks(kRanks);
    std::shuffle(ranks.begin(), ranks.end(), random);
    Step step{random() % 3 != 0, {}, static_cast<std::int64_t>(random() % 300)};
    ranks.resize(step.collective ? 1 + random() % kRanks : 2);
    step.ranks = ranks;
    program.push_back(step);
  }
  return program;
}

std::int64_t value_of(int rank, std::size_t step) { return rank * 1000 + static_cast<std::int64_t>(step); }

/// Runs one rank's part with several communications in flight. Awaits them in random order and with random pauses.
class Player {
 public:
  Player(Communicator& communicator, Device& device, const std::vector<Step>& program, std::uint32_t seed)
      : communicator_(communicator), device_(device), program_(program), random_(seed), rank_(communicator.rank()) {}

  /// Peers may read the data until the requests have ended.
  ~Player() {
    for (InFlight& entry : in_flight_) {
      try {
        entry.request->wait();
      } catch (const Error&) {
        // The error that ended the play is more specific.
      }
    }
    device_.synchronize(StreamKind::compute);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void play() {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      start(i);
      if (random_() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
      while (in_flight_.size() > random_() % 6) finish(random_() % in_flight_.size());
    }
    while (!in_flight_.empty()) finish(in_flight_.size() - 1);
  }

 private:
  struct InFlight {
    std::unique_ptr<Request> request;
    std::unique_ptr<std::vector<double>> data;
    double expected = 0;
  };

  void start(std::size_t index) {
    const Step& step = program_[index];
    if (std::find(step.ranks.begin(), step.ranks.end(), rank_) == step.ranks.end()) return;
    InFlight entry;
    entry.data = std::make_unique<std::vector<double>>(static_cast<std::size_t>(step.elements),
                                                       static_cast<double>(value_of(rank_, index)));
    if (step.collective) {
      for (const int rank : step.ranks) entry.expected += static_cast<double>(value_of(rank, index));
      CollectiveCall call{.dtype = DType::f64, .group = communicator_.create_group(step.ranks)};
      call.input = call.output = entry.data->data();
      call.elements = step.elements;
      call.id = index;
      entry.request = communicator_.start(call);
    } else {
      const bool sends = step.ranks[0] == rank_;
      entry.expected = static_cast<double>(value_of(step.ranks[0], index));
      const MessageCall call{
          .peer = step.ranks[sends ? 1 : 0], .data = entry.data->data(), .bytes = step.elements * 8, .id = index};
      entry.request = sends ? communicator_.send(call) : communicator_.receive(call);
    }
    in_flight_.push_back(std::move(entry));
  }

  void finish(std::size_t position) {
    InFlight entry = std::move(in_flight_[position]);
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(position));
    entry.request->wait();
    device_.synchronize(StreamKind::compute);
    communicator_.check();
    for (const double value : *entry.data) {
      if (value != entry.expected) throw RuntimeError("wrong value");
    }
  }

  Communicator& communicator_;
  Device& device_;
  const std::vector<Step>& program_;
  std::mt19937 random_;
  int rank_;
  std::vector<InFlight> in_flight_;
};

class Interleaving : public ::testing::TestWithParam<std::tuple<int, DeviceKind>> {};

TEST_P(Interleaving, GivesRightValuesInAnyOrderOfEvents) {
  const int seed = std::get<0>(GetParam());
  const DeviceKind kind = std::get<1>(GetParam());
  // Two rounds with the same ids, as two steps of a run have.
  const std::vector<Step> program = random_program(static_cast<std::uint32_t>(seed), 150);
  const auto errors =
      testing::run_ranks(kRanks, 60, kind, [&](Communicator& communicator, testing::HostDevice& device) {
        for (int round = 0; round < 2; ++round) {
          Player(communicator, device, program,
                 static_cast<std::uint32_t>(1000 * seed + 10 * round + communicator.rank()))
              .play();
        }
      });
  EXPECT_THAT(errors, ::testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(Host, Interleaving,
                         ::testing::Combine(::testing::Range(0, 12), ::testing::Values(DeviceKind::host)));
INSTANTIATE_TEST_SUITE_P(Streams, Interleaving,
                         ::testing::Combine(::testing::Range(0, 3), ::testing::Values(DeviceKind::streams)));
INSTANTIATE_TEST_SUITE_P(Nccl, Interleaving,
                         ::testing::Combine(::testing::Range(0, 3), ::testing::Values(DeviceKind::nccl)));

class Aborts : public ::testing::TestWithParam<DeviceKind> {};

TEST_P(Aborts, AtAnyMomentEndEveryRank) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    const std::vector<Step> program = random_program(seed, 200);
    const auto errors =
        testing::run_ranks(kRanks, 3600, GetParam(), [&](Communicator& communicator, testing::HostDevice& device) {
          if (communicator.rank() == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(100 * seed));
            communicator.abort("enough");
            throw RuntimeError("the root cause");
          }
          Player(communicator, device, program, seed).play();
        });
    EXPECT_EQ(errors[0], "the root cause");
    for (std::size_t rank = 1; rank < kRanks; ++rank) EXPECT_THAT(errors[rank], ::testing::HasSubstr("enough"));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Aborts, ::testing::Values(DeviceKind::host, DeviceKind::nccl),
                         [](const auto& info) { return testing::to_string(info.param); });

}  // namespace
}  // namespace strata
