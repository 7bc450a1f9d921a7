#include "calibration/copy_points.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/rank_threads.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::int64_t, 5> kCopyBytes{4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
constexpr std::array<std::int64_t, 8> kCollectiveBytes{1 << 6,  1 << 12, 1 << 15, 1 << 17,
                                                       1 << 19, 1 << 21, 1 << 23, 1 << 25};
constexpr std::array<CollectiveKind, 5> kKinds{CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                               CollectiveKind::all_gather, CollectiveKind::all_to_all,
                                               CollectiveKind::broadcast};
constexpr std::int64_t kSmallMessage = 8;
constexpr std::int64_t kLargeMessage = 16 << 20;
/// Bytes that all repetitions of one measurement move, and bounds of the repetitions.
constexpr std::int64_t kMovedBytes = 32 << 20;
constexpr std::int64_t kLeastRepetitions = 3;
constexpr std::int64_t kMostRepetitions = 30;

std::int64_t repetitions(std::int64_t bytes) {
  return std::clamp(kMovedBytes / bytes, kLeastRepetitions, kMostRepetitions);
}

/// Mean seconds of `work`, after one run that warms up. The count is fixed, because ranks must do the same.
template <class Work>
double mean_seconds(Device& device, std::int64_t count, const Work& work) {
  work();
  device.synchronize(StreamKind::compute);
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) work();
  device.synchronize(StreamKind::compute);
  return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(count);
}

/// Adds what all ranks measured to means.
class RankMeans {
 public:
  explicit RankMeans(int ranks) : ranks_(ranks) {}

  void add(std::size_t index, MeasuredPoint point) {
    const std::lock_guard lock(mutex_);
    if (points_.size() <= index) points_.resize(index + 1);
    point.seconds = points_[index].seconds + point.seconds / ranks_;
    points_[index] = std::move(point);
  }
  [[nodiscard]] std::vector<MeasuredPoint> take() { return std::move(points_); }

 private:
  std::mutex mutex_;
  int ranks_;
  std::vector<MeasuredPoint> points_;
};

void run_ranks_of(const CalibratedMachine& machine, World& world, const RankBody& body) {
  run_rank_threads(
      world, [&](int rank) { return machine.make_device(rank, world.rank_count()); }, body);
}

/// Runs collectives of the rank's group. Groups are of neighbours.
class CollectiveBench {
 public:
  CollectiveBench(Device& device, Communicator& communicator, int size)
      : device_(device),
        communicator_(communicator),
        ranks_(size),
        input_(device.allocate(kCollectiveBytes.back())),
        output_(device.allocate(kCollectiveBytes.back())) {
    std::vector<int> group(static_cast<std::size_t>(size));
    std::iota(group.begin(), group.end(), communicator.rank() / size * size);
    group_ = communicator.create_group(group);
  }

  double seconds(CollectiveKind kind, DType dtype, std::int64_t bytes) {
    const std::int64_t elements = bytes / static_cast<std::int64_t>(size_of(dtype));
    const std::string name = "calibration of " + std::string(to_string(kind));
    CollectiveCall call;
    call.kind = kind;
    call.dtype = dtype;
    call.group = group_;
    call.input = input_.get();
    call.output = output_.get();
    call.elements = kind == CollectiveKind::all_gather ? elements / ranks_ : elements;
    call.name = &name;
    return mean_seconds(device_, repetitions(bytes), [&] {
      call.id = ++calls_;
      communicator_.start(call)->wait();
    });
  }

 private:
  Device& device_;
  Communicator& communicator_;
  int ranks_;
  int group_ = 0;
  std::shared_ptr<void> input_;
  std::shared_ptr<void> output_;
  std::uint64_t calls_ = 0;
};

/// Half the time of a message to the other rank and back.
double message_seconds(Device& device, Communicator& communicator, std::int64_t bytes, std::uint64_t& calls) {
  const std::shared_ptr<void> memory = device.allocate(bytes);
  const std::string name = "calibration of messages";
  const int own = communicator.rank();
  const auto exchange = [&](int sender) {
    MessageCall call{.peer = 1 - own, .data = memory.get(), .bytes = bytes, .id = ++calls, .name = &name};
    (own == sender ? communicator.send(call) : communicator.receive(call))->wait();
  };
  return mean_seconds(device, repetitions(bytes),
                      [&] {
                        exchange(0);
                        exchange(1);
                      }) /
         2;
}

}  // namespace

std::vector<MeasuredPoint> time_copies(const CalibratedMachine& machine, World& world) {
  RankMeans means(world.rank_count());
  run_ranks_of(machine, world, [&](Device& device, Communicator&) {
    const std::shared_ptr<void> from = device.allocate(kCopyBytes.back());
    const std::shared_ptr<void> to = device.allocate(kCopyBytes.back());
    std::size_t index = 0;
    for (const std::int64_t bytes : kCopyBytes) {
      const double seconds = mean_seconds(device, repetitions(bytes),
                                          [&] { device.copy(StreamKind::compute, to.get(), from.get(), bytes); });
      means.add(index++, {"copy", DType::f32, {2 * bytes}, 1, world.rank_count(), seconds});
    }
  });
  return means.take();
}

double host_copy_rate(Device& device) {
  if (device.is_host_memory()) return 0;
  const std::int64_t bytes = kCopyBytes.back();
  const std::shared_ptr<void> host = device.allocate_host(bytes);
  const std::shared_ptr<void> memory = device.allocate(bytes);
  return static_cast<double>(bytes) / mean_seconds(device, repetitions(bytes), [&] {
           device.copy_from_host(StreamKind::compute, memory.get(), host.get(), bytes);
         });
}

std::vector<MeasuredPoint> time_collectives(const CalibratedMachine& machine, World& world, int size) {
  const int ranks = world.rank_count();
  RankMeans means(ranks);
  run_ranks_of(machine, world, [&](Device& device, Communicator& communicator) {
    CollectiveBench bench(device, communicator, size);
    std::size_t index = 0;
    for (const CollectiveKind kind : kKinds) {
      const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
      // Others move bytes of any type.
      for (const DType type : {DType::f32, DType::bf16}) {
        if (type != DType::f32 && !reduces) continue;
        for (const std::int64_t bytes : kCollectiveBytes) {
          means.add(index++,
                    {std::string(to_string(kind)), type, {bytes}, size, ranks, bench.seconds(kind, type, bytes)});
        }
      }
    }
  });
  return means.take();
}

LinkLevel time_messages(const CalibratedMachine& machine, World& world) {
  LinkLevel level{.name = "node"};
  run_ranks_of(machine, world, [&](Device& device, Communicator& communicator) {
    if (communicator.rank() > 1) return;
    std::uint64_t calls = 0;
    const double small = message_seconds(device, communicator, kSmallMessage, calls);
    const double large = message_seconds(device, communicator, kLargeMessage, calls);
    if (communicator.rank() != 0) return;
    level.latency = small;
    level.bandwidth = static_cast<double>(kLargeMessage) / std::max(large - small, large / 2);
    level.total_bandwidth = level.bandwidth;
  });
  return level;
}

}  // namespace strata::host
