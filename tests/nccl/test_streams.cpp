// Collectives of several groups: they run concurrently unless they access the same memory, and are passed to NCCL in
// the order of the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "communicator/graph_device.hpp"
#include "nccl_ranks.hpp"

namespace strata {
namespace {

using nccl::NcclWorld;
using nccl::Timeouts;
using nccl_test::End;
using nccl_test::Libraries;
using nccl_test::run;
using nccl_test::run_processes;
using ::testing::Each;
using ::testing::ElementsAre;

CollectiveCall call_of(CollectiveKind kind, int group, const std::vector<double>& input, std::vector<double>& output) {
  CollectiveCall call{.kind = kind, .dtype = DType::f64, .group = group};
  call.input = input.data();
  call.output = output.data();
  call.elements = static_cast<std::int64_t>(input.size());
  return call;
}

TEST(Streams, ACollectiveDoesNotWaitForThoseOfOtherGroups) {
  std::atomic<int> reduced = 0;
  const auto errors = run(3, 5, [&](End& end) {
    std::vector<double> slow(4, 1);
    std::vector<double> fast(4, 1 + end.rank);
    const int pair = end.rank == 2 ? -1 : end.communicator.create_group({0, 1});
    CommunicationPlan plan;
    plan.collectives = {{end.group, CollectiveKind::all_reduce}};
    if (end.rank != 2) plan.collectives.insert({pair, CollectiveKind::all_reduce});
    end.communicator.make_ready(plan);

    // Rank 2 starts after the second collective of the others.
    while (end.rank == 2 && reduced < 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      end.communicator.check();
    }
    const auto first = end.communicator.start(call_of(CollectiveKind::all_reduce, end.group, slow, slow));
    if (end.rank != 2) {
      end.communicator.start(call_of(CollectiveKind::all_reduce, pair, fast, fast))->wait();
      end.device.synchronize(StreamKind::compute);
      end.communicator.check();
      EXPECT_THAT(fast, Each(3));
      ++reduced;
    }
    first->wait();
    end.device.synchronize(StreamKind::compute);
    EXPECT_THAT(slow, Each(3));
  });
  EXPECT_THAT(errors, Each(""));
}

/// Gradients of four ranks, sharded over two and replicated over two. No collective waits for the previous one.
class ShardedReplicas {
 public:
  explicit ShardedReplicas(Communicator& communicator) : communicator_(communicator) {
    const int rank = communicator.rank();
    shards_ = communicator.create_group(rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
    replicas_ = communicator.create_group({rank % 2, rank % 2 + 2});
  }

  /// Starts three collectives. The second reads the result of the first. The third writes the input of the second.
  void start() {
    const auto begin = [&](const CollectiveCall& call) { requests_.push_back(communicator_.start(call)); };
    begin(call_of(CollectiveKind::reduce_scatter, shards_, gradient, shard));
    begin(call_of(CollectiveKind::all_reduce, replicas_, shard, shard));
    begin(call_of(CollectiveKind::all_gather, shards_, shard, gathered));
    begin(call_of(CollectiveKind::all_reduce, replicas_, other, shard));
  }
  void wait() {
    for (const auto& request : requests_) request->wait();
    requests_.clear();
  }

  std::vector<double> gradient = std::vector<double>(8);
  std::vector<double> shard = std::vector<double>(4);
  std::vector<double> gathered = std::vector<double>(8);
  std::vector<double> other = std::vector<double>(4);

 private:
  Communicator& communicator_;
  int shards_ = -1;
  int replicas_ = -1;
  std::vector<std::unique_ptr<Request>> requests_;
};

void expect_sums(const ShardedReplicas& found, double scale) {
  EXPECT_THAT(found.gathered, Each(scale * 10)) << "of 1, 2, 3 and 4";
  EXPECT_THAT(found.shard, Each(scale * 2));
}

void fill(ShardedReplicas& values, int rank, double scale) {
  std::fill(values.gradient.begin(), values.gradient.end(), scale * (1 + rank));
  std::fill(values.other.begin(), values.other.end(), scale);
}

TEST(Streams, CollectivesThatTouchTheSameMemoryRunInTheirOrder) {
  const auto errors = run(4, 60, [](End& end) {
    ShardedReplicas values(end.communicator);
    for (int round = 1; round <= 20; ++round) {
      fill(values, end.rank, round);
      // A different rank is late in each round, so that other collectives could overtake.
      if (round % 4 == end.rank) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      values.start();
      values.wait();
      end.device.synchronize(StreamKind::compute);
      expect_sums(values, round);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Streams, CollectivesThatTouchTheSameMemoryRunInTheirOrderInGraphs) {
  const auto errors = run_processes(4, 60, [](NcclWorld& world, int rank) {
    testing::GraphDevice device;
    const auto communicator = world.connect(rank, device);
    ShardedReplicas values(*communicator);
    values.start();
    values.wait();
    device.synchronize(StreamKind::compute);
    std::unique_ptr<CapturedCommunication> captured;
    const auto graph = device.capture([&] {
      captured = communicator->capture([&] {
        values.start();
        values.wait();
      });
    });
    for (int round = 1; round <= 20; ++round) {
      fill(values, rank, round);
      if (round % 4 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      graph->launch({});
      captured->launched();
      device.synchronize(StreamKind::compute);
      communicator->check();
      expect_sums(values, round);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Streams, NcclGetsTheCollectivesOfAllGroupsInTheOrderOfTheProgram) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), 3, Timeouts{60, 60});
  const auto errors = run(world, [&](End& end) {
    std::vector<double> data(6, 1);
    std::vector<double> other(6, 1);
    // The link of all ranks is created only when rank 2 joins. That of two ranks is created before.
    if (end.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::vector<std::unique_ptr<Request>> requests;
    requests.push_back(end.communicator.start(call_of(CollectiveKind::broadcast, end.group, data, data)));
    if (end.rank != 2) {
      const int pair = end.communicator.create_group({0, 1});
      requests.push_back(end.communicator.start(call_of(CollectiveKind::all_reduce, pair, other, other)));
    }
    requests.push_back(end.communicator.start(call_of(CollectiveKind::all_reduce, end.group, data, data)));
    for (const auto& request : requests) request->wait();
    end.device.synchronize(StreamKind::compute);
  });
  EXPECT_THAT(errors, Each(""));
  const std::vector<std::pair<int, CollectiveKind>> three{
      {3, CollectiveKind::broadcast}, {2, CollectiveKind::all_reduce}, {3, CollectiveKind::all_reduce}};
  const std::vector<std::pair<int, CollectiveKind>> two{three[0], three[2]};
  EXPECT_THAT(libraries.nccl->launches(), ::testing::UnorderedElementsAre(three, three, two));
}

}  // namespace
}  // namespace strata
