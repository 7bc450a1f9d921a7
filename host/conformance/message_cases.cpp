#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "conformance/check.hpp"
#include "conformance/communicator_bench.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

const std::string kMessageName = "message";

MessageCall message(int peer, const DeviceNumbers& numbers, std::uint64_t id) {
  return {.peer = peer, .data = numbers.data(), .bytes = numbers.bytes(), .id = id, .name = &kMessageName};
}

void require(bool holds, const std::string& what) {
  if (!holds) throw CheckFailed(what);
}

/// Both ranks send twice before either receives, and receive in the other order where that may be.
void exchange(Communicator& communicator, Device& device, bool in_any_order) {
  const int rank = communicator.rank();
  const int peer = 1 - rank;
  const std::vector<double> of_peer(100, 10.0 * peer + 1);
  DeviceNumbers first(device, DType::f32, 100);
  DeviceNumbers second(device, DType::f32, 3);
  DeviceNumbers long_one(device, DType::f32, 100);
  DeviceNumbers short_one(device, DType::f32, 3);
  first.set(std::vector<double>(100, 10.0 * rank + 1));
  second.set(std::vector<double>(3, rank));
  const auto a = communicator.send(message(peer, first, 1));
  const auto b = communicator.send(message(peer, second, 2));
  if (!in_any_order) communicator.receive(message(peer, long_one, 1))->wait();
  communicator.receive(message(peer, short_one, 2))->wait();
  if (in_any_order) communicator.receive(message(peer, long_one, 1))->wait();
  a->wait();
  b->wait();
  require(long_one.get() == of_peer && short_one.get() == std::vector<double>(3, peer), "a message was changed");
}

/// Three messages with one id arrive in the order in which they were sent.
void send_in_order(Communicator& communicator, Device& device) {
  DeviceNumbers numbers[] = {{device, DType::f64, 1}, {device, DType::f64, 1}, {device, DType::f64, 1}};
  if (communicator.rank() == 0) {
    std::vector<std::unique_ptr<Request>> requests;
    for (DeviceNumbers& each : numbers) {
      each.set({static_cast<double>(requests.size() + 1)});
      requests.push_back(communicator.send(message(1, each, 5)));
    }
    for (auto& request : requests) request->wait();
    device.synchronize(StreamKind::compute);
    return;
  }
  double expected = 0;
  for (DeviceNumbers& each : numbers) {
    communicator.receive(message(0, each, 5))->wait();
    require(each.get().front() == ++expected, "messages with one id arrive in another order");
  }
}

/// Rank 0 starts a collective before it sends. Rank 1 joins the collective only after it has received.
void send_beside_collective(Communicator& communicator, Device& device) {
  const int rank = communicator.rank();
  DeviceNumbers value(device, DType::f32, 1);
  DeviceNumbers data(device, DType::f32, 1);
  value.set({1});
  data.set({42.0 * (1 - rank)});
  CollectiveCall call{.group = communicator.create_group({0, 1})};
  call.input = call.output = value.data();
  call.elements = 1;
  call.id = 6;
  call.name = &kMessageName;
  if (rank == 0) {
    const auto collective = communicator.start(call);
    const auto request = communicator.send(message(1, data, 7));
    collective->wait();
    request->wait();
  } else {
    communicator.receive(message(0, data, 7))->wait();
    communicator.start(call)->wait();
  }
  require(data.get().front() == 42 && value.get().front() == 2, "a message beside a collective gives wrong values");
}

/// Messages of two channels, received in the other order.
void receive_channels_in_another_order(Communicator& communicator, Device& device) {
  DeviceNumbers a(device, DType::f64, 1);
  DeviceNumbers b(device, DType::f64, 1);
  MessageCall first = message(1 - communicator.rank(), a, 11);
  MessageCall second = message(1 - communicator.rank(), b, 12);
  first.channel = 1;
  second.channel = 2;
  if (communicator.rank() == 0) {
    a.set({1});
    b.set({2});
    const auto one = communicator.send(first);
    const auto two = communicator.send(second);
    one->wait();
    two->wait();
    return device.synchronize(StreamKind::compute);
  }
  communicator.receive(second)->wait();
  communicator.receive(first)->wait();
  require(a.get().front() == 1 && b.get().front() == 2, "messages of two channels are mixed up");
}

/// A send ends although its receiver waits for a later message only.
void send_to_a_rank_that_does_not_wait(Communicator& communicator, Device& device) {
  DeviceNumbers a(device, DType::f64, 1);
  DeviceNumbers b(device, DType::f64, 1);
  const int peer = 1 - communicator.rank();
  if (communicator.rank() == 0) {
    a.set({1});
    b.set({2});
    communicator.send(message(peer, a, 13))->wait();
    communicator.send(message(peer, b, 14))->wait();
    return device.synchronize(StreamKind::compute);
  }
  const auto early = communicator.receive(message(peer, a, 13));
  communicator.receive(message(peer, b, 14))->wait();
  early->wait();
  require(a.get().front() == 1 && b.get().front() == 2, "a message that is waited for late was changed");
}

/// A rank sends a message and an empty one to itself.
void send_to_itself(Communicator& communicator, Device& device) {
  DeviceNumbers sent(device, DType::f32, 2);
  DeviceNumbers received(device, DType::f32, 2);
  DeviceNumbers nothing(device, DType::f32, 0);
  sent.set({3, 4});
  const auto a = communicator.send(message(0, sent, 1));
  const auto b = communicator.send(message(0, nothing, 2));
  communicator.receive(message(0, received, 1))->wait();
  communicator.receive(message(0, nothing, 2))->wait();
  a->wait();
  b->wait();
  require(received.get() == std::vector<double>{3, 4}, "a message to the rank itself was changed");
}

/// One communication of a random program that all ranks know.
struct PlayedStep {
  bool is_collective = true;
  /// The group, or sender and receiver.
  std::vector<int> ranks;
  std::int64_t elements = 0;
};

constexpr int kPlayers = 4;

std::vector<PlayedStep> random_program(std::uint32_t seed, int length) {
  std::mt19937 random(seed);
  std::vector<PlayedStep> program;
  for (int i = 0; i < length; ++i) {
    std::vector<int> ranks = all_ranks(kPlayers);
    std::shuffle(ranks.begin(), ranks.end(), random);
    PlayedStep step{random() % 3 != 0, {}, static_cast<std::int64_t>(random() % 300)};
    ranks.resize(step.is_collective ? 1 + random() % kPlayers : 2);
    step.ranks = ranks;
    program.push_back(step);
  }
  return program;
}

double played_value(int rank, std::size_t step) { return rank * 1000.0 + static_cast<double>(step); }

/// Runs one rank's part with several communications in flight. Awaits them in random order and with random pauses.
class Player {
 public:
  Player(Communicator& communicator, Device& device, const std::vector<PlayedStep>& program, std::uint32_t seed)
      : communicator_(communicator), device_(device), program_(program), random_(seed), rank_(communicator.rank()) {}

  /// Peers may read the data until the requests have ended.
  ~Player() {
    for (InFlight& entry : in_flight_) {
      try {
        entry.request->wait();
      } catch (...) {
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
    std::unique_ptr<DeviceNumbers> data;
    double expected = 0;
    std::size_t step = 0;
  };

  void start(std::size_t index) {
    const PlayedStep& step = program_[index];
    if (!contains(step.ranks, rank_)) return;
    InFlight entry;
    entry.step = index;
    entry.data = std::make_unique<DeviceNumbers>(device_, DType::f64, step.elements);
    entry.data->set(std::vector<double>(static_cast<std::size_t>(step.elements), played_value(rank_, index)));
    if (step.is_collective) {
      for (const int rank : step.ranks) entry.expected += played_value(rank, index);
      CollectiveCall call{.dtype = DType::f64, .group = communicator_.create_group(step.ranks)};
      call.input = call.output = entry.data->data();
      call.elements = step.elements;
      call.id = index;
      entry.request = communicator_.start(call);
    } else {
      const bool sends = step.ranks[0] == rank_;
      entry.expected = played_value(step.ranks[0], index);
      const MessageCall call{
          .peer = step.ranks[sends ? 1 : 0], .data = entry.data->data(), .bytes = entry.data->bytes(), .id = index};
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
    for (const double value : entry.data->get()) {
      if (value == entry.expected) continue;
      throw CheckFailed("communication " + std::to_string(entry.step) + " of a random program gives " +
                        std::to_string(value) + " in place of " + std::to_string(entry.expected));
    }
  }

  Communicator& communicator_;
  Device& device_;
  const std::vector<PlayedStep>& program_;
  std::mt19937 random_;
  int rank_;
  std::vector<InFlight> in_flight_;
};

}  // namespace

void try_messages(const CommunicatorBench& bench) {
  std::atomic<bool> in_any_order = false;
  CommunicatorBench asking = bench;
  asking.make_device = [&](int rank, const World& world) {
    in_any_order = world.limits().matches_messages_by_id;
    return bench.make_device(rank, world);
  };
  require_no_error(
      run_ranks(asking, 2,
                [&](Communicator& communicator, Device& device) { exchange(communicator, device, in_any_order); }),
      "two messages each way");
  require_no_error(run_ranks(bench, 2, send_in_order), "messages with one id");
  require_no_error(run_ranks(bench, 2, send_beside_collective), "a message beside a collective");
  require_no_error(run_ranks(bench, 2, receive_channels_in_another_order), "messages of two channels");
  require_no_error(run_ranks(bench, 2, send_to_a_rank_that_does_not_wait), "a send whose receiver does not wait");
  require_no_error(run_ranks(bench, 1, send_to_itself), "messages to oneself");
}

void try_interleaving(const CommunicatorBench& bench, std::uint32_t seed) {
  // Two rounds with the same ids, as two steps of a run have.
  const std::vector<PlayedStep> program = random_program(seed, 150);
  const auto errors = run_ranks(bench, kPlayers, [&](Communicator& communicator, Device& device) {
    for (std::uint32_t round = 0; round < 2; ++round) {
      const auto rank = static_cast<std::uint32_t>(communicator.rank());
      Player(communicator, device, program, 1000 * seed + 10 * round + rank).play();
    }
  });
  require_no_error(errors, "seed " + std::to_string(seed));
}

void try_abort(const CommunicatorBench& bench, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::vector<PlayedStep> program = random_program(static_cast<std::uint32_t>(round), 200);
    const auto errors = run_ranks(bench, kPlayers, [&](Communicator& communicator, Device& device) {
      if (communicator.rank() == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        communicator.abort("the reason of the abort");
        throw RuntimeError("the root cause");
      }
      Player(communicator, device, program, static_cast<std::uint32_t>(round)).play();
    });
    for (std::size_t rank = 1; rank < errors.size(); ++rank) {
      const std::string& found = errors[rank];
      const bool is_right =
          found.starts_with("aborted: ") && found.find("the reason of the abort") != std::string::npos;
      if (is_right) continue;
      throw CheckFailed("rank 0 aborts, and rank " + std::to_string(rank) + " " +
                        (found.empty() ? std::string("ends without an error") : "throws '" + found + "'") +
                        "; accepted: an AbortedError with the reason");
    }
  }
}

}  // namespace strata::host
