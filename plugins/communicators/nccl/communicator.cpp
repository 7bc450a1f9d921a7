#include "communicator.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/operation.hpp"
#include "rendezvous/bytes.hpp"
#include "rendezvous/exchange.hpp"
#include "strata/error.hpp"

namespace strata::nccl {
namespace {

class NcclRequest final : public Request {
 public:
  NcclRequest(Engine& engine, GpuRuntime& gpu, void* compute, OperationPointer operation)
      : engine_(engine), gpu_(gpu), compute_(compute), operation_(std::move(operation)) {}

  void wait() override {
    engine_.await_launch(*operation_);
    gpu_.wait(compute_, operation_->done.get());
    operation_->waited = true;
  }

 private:
  Engine& engine_;
  GpuRuntime& gpu_;
  void* compute_;
  OperationPointer operation_;
};

/// The marks of a capture's communications: from `begin` to before `end`.
struct MarkRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class CapturedOperations final : public CapturedCommunication {
 public:
  CapturedOperations(Engine& engine, GpuRuntime& gpu, void* compute, const GraphMarks& marks, const MarkRange& range,
                     std::shared_ptr<const Operations> operations)
      : engine_(engine),
        gpu_(gpu),
        compute_(compute),
        marks_(marks),
        range_(range),
        operations_(std::move(operations)) {}

  void launched() override {
    if (operations_->empty()) return;
    // Clear the marks after the graph and before its next launch.
    marks_.clear(gpu_, compute_, range_.begin, range_.end);
    engine_.watch_graph(operations_, engine_.events().record(compute_));
  }

 private:
  Engine& engine_;
  GpuRuntime& gpu_;
  void* compute_;
  const GraphMarks& marks_;
  MarkRange range_;
  std::shared_ptr<const Operations> operations_;
};

/// The key of a group's link, equal on all ranks: its rank numbers in a form of bounded length.
std::string group_key(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += std::to_string(rank) + " ";
  return "group " + rendezvous::to_hex(rendezvous::digest(text));
}

std::string channel_key(const MessageChannel& channel) {
  return "channel " + std::to_string(channel.from) + " " + std::to_string(channel.to) + " " +
         std::to_string(channel.number);
}

}  // namespace

NcclCommunicator::NcclCommunicator(Backend backend, std::shared_ptr<rendezvous::Store> store, const Place& place,
                                   Device& device, double timeout)
    : place_(place),
      device_(device),
      store_(store),
      timeout_(timeout),
      gpu_(backend.gpu),
      compute_(device.native_stream(StreamKind::compute)),
      marks_(*gpu_),
      engine_(std::move(backend), std::move(store), place.rank, compute_.device, timeout) {}

int NcclCommunicator::create_group(const std::vector<int>& ranks) {
  communicators::require_group(ranks, rank(), rank_count());
  groups_.push_back(engine_.link(group_key(ranks), ranks));
  return static_cast<int>(groups_.size()) - 1;
}

std::unique_ptr<Request> NcclCommunicator::start(const CollectiveCall& call) {
  const auto operation = std::make_shared<Operation>(rank(), call);
  if (call.group < 0 || call.group >= static_cast<int>(groups_.size())) {
    throw RuntimeError(fault_text(*operation, "there is no group " + std::to_string(call.group)));
  }
  operation->link = group(call.group);
  const std::string misuse = communicators::find_misuse(call, operation->link->size(), operation->link->index());
  if (!misuse.empty()) throw RuntimeError(fault_text(*operation, misuse));
  operation->after = conflicts(*operation);
  collectives_in_flight_.push_back(operation);
  return hand_over(operation);
}

Operations NcclCommunicator::conflicts(const Operation& operation) {
  std::erase_if(collectives_in_flight_, [](const OperationPointer& each) { return each->waited; });
  Operations found;
  for (const OperationPointer& each : collectives_in_flight_) {
    if (each->link == operation.link) continue;
    if (communicators::conflict(operation.call, operation.link->size(), each->call, each->link->size())) {
      found.push_back(each);
    }
  }
  return found;
}

std::shared_ptr<Link> NcclCommunicator::link(const MessageChannel& channel) {
  return engine_.link(channel_key(channel), {channel.from, channel.to});
}

std::unique_ptr<Request> NcclCommunicator::send(const MessageCall& call) {
  const OperationPointer operation = message(Operation::Kind::send, call);
  if (call.peer == rank()) return to_itself(operation);
  operation->link = link({rank(), call.peer, call.channel});
  return hand_over(operation);
}

std::unique_ptr<Request> NcclCommunicator::receive(const MessageCall& call) {
  const OperationPointer operation = message(Operation::Kind::receive, call);
  if (call.peer == rank()) return to_itself(operation);
  operation->link = link({call.peer, rank(), call.channel});
  return hand_over(operation);
}

OperationPointer NcclCommunicator::message(Operation::Kind kind, const MessageCall& call) {
  const auto operation = std::make_shared<Operation>(kind, rank(), call);
  if (call.peer < 0 || call.peer >= rank_count()) throw RuntimeError(fault_text(*operation, "there is no such rank"));
  return operation;
}

std::unique_ptr<Request> NcclCommunicator::hand_over(const OperationPointer& operation) {
  place_in_work(*operation);
  launch({operation});
  return request(operation);
}

std::unique_ptr<Request> NcclCommunicator::to_itself(const OperationPointer& operation) {
  place_in_work(*operation);
  const bool sends = operation->kind == Operation::Kind::send;
  const std::uint64_t id = operation->message.id;
  Waiting& others = sends ? own_receives_ : own_sends_;
  const auto found = others.find(id);
  if (found == others.end()) {
    (sends ? own_sends_ : own_receives_)[id].push_back(operation);
    return request(operation);
  }
  const OperationPointer other = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) others.erase(found);
  const OperationPointer& receive = sends ? other : operation;
  const OperationPointer& send = sends ? operation : other;
  if (send->message.bytes != receive->message.bytes) {
    throw RuntimeError(fault_text(*operation, "sends " + std::to_string(send->message.bytes) + " bytes, receives " +
                                                  std::to_string(receive->message.bytes)));
  }
  receive->own_message = send->message.data;
  // Both operations wait for the later of the two events, which is that of the operation posted last.
  other->ready = operation->ready;
  launch({receive, send});
  return request(operation);
}

void NcclCommunicator::place_in_work(Operation& operation) {
  operation.ready = engine_.events().record(compute_.handle);
  operation.captured = captured_ != nullptr;
  if (operation.captured && operation.uses_link()) operation.marks = marks_.take();
}

void NcclCommunicator::launch(const Operations& operations) {
  engine_.hand_over(operations);
  if (!captured_) return;
  for (const OperationPointer& operation : operations) {
    engine_.await_launch(*operation);
    if (operation->marks) captured_->push_back(operation);
  }
}

std::optional<std::string> NcclCommunicator::uncapturable() const {
  if (place_.local_rank_count == 1) return std::nullopt;
  return "NCCL in graphs may come to a standstill where a process has several ranks; 'strata launch' gives each its "
         "own";
}

std::unique_ptr<CapturedCommunication> NcclCommunicator::capture(const std::function<void()>& communicate) {
  if (const auto reason = uncapturable()) throw RuntimeError("communication cannot be captured: " + *reason);
  const auto operations = std::make_shared<Operations>();
  const std::int64_t marks = marks_.count();
  // The caller has waited for everything that was started before, and operations of the capture belong to its graph
  // only.
  collectives_in_flight_.clear();
  captured_ = operations;
  try {
    communicate();
  } catch (...) {
    captured_ = nullptr;
    collectives_in_flight_.clear();
    marks_.give_back(marks);
    throw;
  }
  captured_ = nullptr;
  collectives_in_flight_.clear();
  return std::make_unique<CapturedOperations>(engine_, *gpu_, compute_.handle, marks_, MarkRange{marks, marks_.count()},
                                              operations);
}

std::unique_ptr<Request> NcclCommunicator::request(const OperationPointer& operation) {
  return std::make_unique<NcclRequest>(engine_, *gpu_, compute_.handle, operation);
}

// Sets up what NCCL would set up at its first use: communicators, their connections and the buffers of both. It runs
// while no NCCL kernel runs on this rank's GPU. Otherwise an allocation could wait in CUDA for kernels that wait for
// other ranks.

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
