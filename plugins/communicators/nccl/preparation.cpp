#include <algorithm>
#include <map>
#include <utility>

#include "communicator.hpp"
#include "rendezvous/exchange.hpp"
#include "strata/error.hpp"

/// \file
/// Sets up what NCCL would set up at its first use: communicators, their connections and the buffers of both. It runs
/// while no NCCL kernel runs on this rank's GPU. Otherwise an allocation could wait in CUDA for kernels that wait for
/// other ranks.

namespace strata::nccl {
namespace {

const std::string kWarmUp = "warm-up";
constexpr DType kType = DType::f32;
constexpr std::int64_t kTypeBytes = 4;

/// Streams of a rank besides those of its links: kernels, copies, and messages to itself.
constexpr int kOtherStreams = 3;

/// CUDA queues streams that share a connection to the GPU one behind the other. Two links in one queue are a deadlock
/// if another rank has them in another order.
void require_connections(int connections, std::size_t links) {
  if (links < 2 || static_cast<int>(links) + kOtherStreams <= connections) return;
  throw ConfigurationError("this rank's groups and channels of messages need " + std::to_string(links) +
                           " NCCL communicators, each with a stream of its own. CUDA has " +
                           std::to_string(connections) + " connections to a GPU for these streams and " +
                           std::to_string(kOtherStreams) +
                           " others (CUDA_DEVICE_MAX_CONNECTIONS, at most 32); accepted: a plan with fewer channels, "
                           "for example with fewer pipeline chunks on a rank");
}

std::string key_of(const Link& link, CollectiveKind kind) { return link.key() + " " + std::string(to_string(kind)); }

std::vector<std::string> all_gather(rendezvous::Store& store, const Place& place, std::chrono::duration<double> timeout,
                                    const std::string& name, const std::string& value) {
  return rendezvous::Exchange(store, place.rank, place.rank_count, timeout).all_gather(name, value);
}

}  // namespace

void NcclCommunicator::make_ready(const CommunicationPlan& plan) {
  if (rank_count() == 1) return;
  const std::string name = "preparation " + std::to_string(preparations_++);
  // Sorted by key, so that all ranks have the same order.
  std::map<std::string, CommunicationPlan::Collective> collectives;
  for (const CommunicationPlan::Collective& each : plan.collectives) {
    if (group(each.group)->size() > 1) collectives[key_of(*group(each.group), each.kind)] = each;
  }
  std::set<MessageChannel> channels;
  for (const auto& [peer, number] : plan.sends_to) channels.insert({rank(), peer, number});
  for (const auto& [peer, number] : plan.receives_from) channels.insert({peer, rank(), number});
  std::erase_if(channels, [](const MessageChannel& each) { return each.from == each.to; });

  std::set<std::shared_ptr<Link>> links;
  for (const std::shared_ptr<Link>& each : groups_) {
    if (each->size() > 1) links.insert(each);
  }
  for (const MessageChannel& each : channels) links.insert(link(each));
  require_connections(gpu_->connections(), links.size());
  engine_.make_links({links.begin(), links.end()}, agree_on_blocks(links.size()));
  // All links are created before the first is used, because ranks that are threads of one process may wait in CUDA for
  // each other's GPUs.
  static_cast<void>(all_gather(*store_, place_, timeout_, name + ", links", ""));

  // One after another, in the same order on all ranks, so that nothing runs while the next one is set up.
  for (const auto& [key, collective] : collectives) {
    if (warm_.insert(key).second) warm_up(collective);
  }
  for (const MessageChannel& each : channels) {
    if (warm_.insert(link(each)->key()).second) warm_up(each);
  }
}

int NcclCommunicator::agree_on_blocks(std::size_t links) {
  const std::string name = "preparation " + std::to_string(preparations_ - 1) + ", blocks";
  const int own = gpu_->multiprocessors(compute_.device) / std::max(1, static_cast<int>(links));
  int fewest = std::max(1, own);
  for (const std::string& each : all_gather(*store_, place_, timeout_, name, std::to_string(fewest))) {
    fewest = std::min(fewest, std::stoi(each));
  }
  return fewest;
}

void NcclCommunicator::warm_up(const CommunicationPlan::Collective& collective) {
  const int size = group(collective.group)->size();
  const bool has_pieces =
      collective.kind == CollectiveKind::reduce_scatter || collective.kind == CollectiveKind::all_to_all;
  const std::shared_ptr<void> input = device_.allocate(size * kTypeBytes);
  const std::shared_ptr<void> output = device_.allocate(size * kTypeBytes);
  CollectiveCall call{.kind = collective.kind, .dtype = kType, .group = collective.group};
  call.input = input.get();
  call.output = output.get();
  call.elements = has_pieces ? size : 1;
  call.name = &kWarmUp;
  finish(start(call));
}

void NcclCommunicator::warm_up(const MessageChannel& channel) {
  const std::shared_ptr<void> data = device_.allocate(kTypeBytes);
  const bool sends = channel.from == rank();
  const MessageCall call{.peer = sends ? channel.to : channel.from,
                         .channel = channel.number,
                         .data = data.get(),
                         .bytes = kTypeBytes,
                         .id = 0,
                         .name = &kWarmUp};
  finish(sends ? send(call) : receive(call));
}

void NcclCommunicator::finish(std::unique_ptr<Request> request) {
  request->wait();
  device_.synchronize(StreamKind::compute);
  check();
}

}  // namespace strata::nccl
