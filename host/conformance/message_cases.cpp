#include <atomic>
#include <functional>

#include "conformance/check.hpp"
#include "conformance/communicator_bench.hpp"

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

}  // namespace strata::host
