// A communicator on real devices: every collective, also in graphs if the communicator supports them, and messages
// around a ring. The ranks are threads with one GPU each, or the processes of a launcher, two of which may share a GPU.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ops/devices.hpp"
#include "runtime/element.hpp"
#include "stacks/stack_configuration.hpp"
#include "strata/communicator.hpp"

namespace strata::testing {
namespace {

constexpr int kSkipped = 77;
constexpr std::int64_t kPiece = 5000;

/// The value of rank `rank` at `index`: small integers, whose sums are exact in any order and type.
double value_of(int rank, std::int64_t index) { return static_cast<double>(index % 11 + rank); }

/// The result at `index` on `rank` of a collective over all `ranks` ranks.
double expected(CollectiveKind kind, int ranks, int rank, std::int64_t index) {
  const auto sum = [&](std::int64_t at) {
    double all = 0;
    for (int each = 0; each < ranks; ++each) all += value_of(each, at);
    return all;
  };
  switch (kind) {
    case CollectiveKind::all_reduce:
      return sum(index);
    case CollectiveKind::reduce_scatter:
      return sum(rank * kPiece + index);
    case CollectiveKind::all_gather:
      return value_of(static_cast<int>(index / (ranks * kPiece)), index % (ranks * kPiece));
    case CollectiveKind::all_to_all:
      return value_of(static_cast<int>(index / kPiece), rank * kPiece + index % kPiece);
    case CollectiveKind::broadcast:
      return value_of(ranks - 1, index);
  }
  return 0;
}

/// A rank's array in its device's memory.
class DeviceArray {
 public:
  DeviceArray(Device& device, DType dtype, std::int64_t elements)
      : device_(device), dtype_(dtype), host_(static_cast<std::size_t>(elements) * size_of(dtype)) {
    memory_ = device.allocate(bytes());
  }

  [[nodiscard]] void* data() const { return memory_.get(); }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(host_.size()); }
  [[nodiscard]] std::int64_t elements() const { return bytes() / static_cast<std::int64_t>(size_of(dtype_)); }

  void fill(int rank) {
    for (std::int64_t i = 0; i < elements(); ++i) host::store_element(dtype_, host_.data(), i, value_of(rank, i));
    device_.copy_from_host(StreamKind::compute, data(), host_.data(), bytes());
  }
  /// Number of elements that differ from expected(i).
  template <class Expected>
  std::int64_t wrong(const Expected& expected) {
    device_.copy_to_host(StreamKind::compute, host_.data(), data(), bytes());
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < elements(); ++i) {
      if (host::load_element(dtype_, host_.data(), i) != expected(i)) ++count;
    }
    return count;
  }

 private:
  Device& device_;
  DType dtype_;
  std::vector<std::byte> host_;
  std::shared_ptr<void> memory_;
};

std::int64_t result_elements(CollectiveKind kind, int ranks) {
  if (kind == CollectiveKind::all_gather) return kPiece * ranks * ranks;
  return kind == CollectiveKind::reduce_scatter ? kPiece : kPiece * ranks;
}

void run_collective(Communicator& communicator, Device& device, const CollectiveCall& pattern) {
  const int ranks = communicator.rank_count();
  CollectiveCall call = pattern;
  DeviceArray input(device, call.dtype, kPiece * ranks);
  DeviceArray output(device, call.dtype, result_elements(call.kind, ranks));
  input.fill(communicator.rank());
  call.root = ranks - 1;
  call.input = input.data();
  call.output = output.data();
  call.elements = input.elements();
  const auto wrong = [&] {
    return output.wrong([&](std::int64_t i) { return expected(call.kind, ranks, communicator.rank(), i); });
  };
  const std::string what = std::string(to_string(call.kind)) + " of " + std::string(to_string(call.dtype)) +
                           " on rank " + std::to_string(communicator.rank());
  communicator.start(call)->wait();
  EXPECT_EQ(wrong(), 0) << what;
  if (device.uncapturable() || communicator.uncapturable()) return;

  std::unique_ptr<CapturedCommunication> communication;
  const auto graph =
      device.capture([&] { communication = communicator.capture([&] { communicator.start(call)->wait(); }); });
  for (int launch = 0; launch < 3; ++launch) {
    device.fill_zero(StreamKind::compute, output.data(), output.bytes());
    graph->launch({});
    communication->launched();
    EXPECT_EQ(wrong(), 0) << what << ", launch " << launch << " of a graph";
    communicator.check();
  }
}

/// Sends to the next rank and receives from the previous one.
void run_messages(Communicator& communicator, Device& device) {
  const int ranks = communicator.rank_count();
  const int before = (communicator.rank() + ranks - 1) % ranks;
  const std::string name = "around the ring";
  DeviceArray sent(device, DType::f32, kPiece);
  DeviceArray received(device, DType::f32, kPiece);
  sent.fill(communicator.rank());
  const auto send = communicator.send({(communicator.rank() + 1) % ranks, 0, sent.data(), sent.bytes(), 1000, &name});
  const auto receive = communicator.receive({before, 0, received.data(), received.bytes(), 1000, &name});
  receive->wait();
  send->wait();
  EXPECT_EQ(received.wrong([&](std::int64_t i) { return value_of(before, i); }), 0) << "rank " << communicator.rank();
}

void run_rank(Communicator& communicator, Device& device) {
  std::vector<int> all;
  for (int rank = 0; rank < communicator.rank_count(); ++rank) all.push_back(rank);
  const std::string name = "collective";
  CollectiveCall call;
  call.group = communicator.create_group(all);
  call.name = &name;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                            CollectiveKind::all_to_all, CollectiveKind::broadcast}) {
      call.dtype = dtype;
      call.kind = kind;
      ++call.id;
      run_collective(communicator, device, call);
    }
  }
  if (communicator.rank_count() > 1) run_messages(communicator, device);
  device.synchronize(StreamKind::compute);
  communicator.check();
}

/// The number of ranks: that of a launcher, or the number of GPUs. Three for devices without a number.
int wanted_ranks() {
  const char* size = std::getenv("WORLD_SIZE");
  if (size != nullptr && std::atoi(size) > 1) return std::atoi(size);
  std::set<int> numbers;
  for (int rank = 0;; ++rank) {
    const auto device = make_device(STRATA_CUDA_PLUGIN, {}, {.rank = rank, .index_on_host = rank});
    const NativeStream stream = device->native_stream(StreamKind::compute);
    if (stream.runtime.empty()) return 3;
    if (!numbers.insert(stream.device).second) return rank;
  }
}

TEST(RealCommunicator, GivesEveryRankItsPart) {
  BuiltPlugins plugins;
  const auto& communicators = plugins.load<CommunicatorFactory>(STRATA_COMMUNICATOR_PLUGIN);
  const auto world = communicators.create(Options(communicators.options(), {}), wanted_ranks());
  std::vector<std::thread> threads;
  for (const int rank : world->local_ranks()) {
    threads.emplace_back([&, rank] {
      try {
        const auto device = make_device(
            STRATA_CUDA_PLUGIN, {},
            {.rank = rank, .ranks_on_host = world->ranks_on_host(), .index_on_host = world->index_on_host(rank)});
        run_rank(*world->connect(rank, *device), *device);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace strata::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    strata::testing::make_device(STRATA_CUDA_PLUGIN);
  } catch (const strata::ConfigurationError& error) {
    std::cout << "skipped: no GPU (" << error.what() << ")\n";
    return strata::testing::kSkipped;
  }
  return RUN_ALL_TESTS();
}
