#include "communicator.hpp"

#include <utility>

#include "rendezvous/sha256.hpp"
#include "shared/calls.hpp"
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
  }

 private:
  Engine& engine_;
  GpuRuntime& gpu_;
  void* compute_;
  OperationPointer operation_;
};

class CapturedOperations final : public CapturedCommunication {
 public:
  CapturedOperations(Engine& engine, void* compute, std::shared_ptr<const Operations> operations)
      : engine_(engine), compute_(compute), operations_(std::move(operations)) {}

  void launched() override { engine_.watch_graph(*operations_, engine_.events().record(compute_)); }

 private:
  Engine& engine_;
  void* compute_;
  std::shared_ptr<const Operations> operations_;
};

NativeStream compute_stream(Device& device, const Backend& backend) {
  const NativeStream stream = device.native_stream(StreamKind::compute);
  if (stream.runtime == backend.runtime) return stream;
  throw ConfigurationError("communicator 'nccl' works with devices whose streams are those of '" + backend.runtime +
                           "'; found the device '" + device.description() + "'");
}

/// The same on all ranks of the group: their numbers, in a length that does not grow.
std::string group_key(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += std::to_string(rank) + " ";
  return "group " + rendezvous::to_hex(rendezvous::sha256(text));
}

std::string channel_key(int from, int to) { return "channel " + std::to_string(from) + " " + std::to_string(to); }

}  // namespace

NcclCommunicator::NcclCommunicator(Backend backend, std::shared_ptr<rendezvous::Store> store, const Place& place,
                                   Device& device, double timeout)
    : place_(place),
      gpu_(backend.gpu),
      compute_(compute_stream(device, backend)),
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
  operation->link = groups_[static_cast<std::size_t>(call.group)];
  const std::string misuse = communicators::find_misuse(call, operation->link->size(), operation->link->index());
  if (!misuse.empty()) throw RuntimeError(fault_text(*operation, misuse));
  return hand_over({}, operation);
}

std::unique_ptr<Request> NcclCommunicator::send(const MessageCall& call) {
  const OperationPointer operation = message(Operation::Kind::send, call);
  if (call.peer == rank()) return to_itself(operation);
  operation->link = engine_.link(channel_key(rank(), call.peer), {rank(), call.peer});
  return hand_over({rank(), call.peer}, operation);
}

std::unique_ptr<Request> NcclCommunicator::receive(const MessageCall& call) {
  const OperationPointer operation = message(Operation::Kind::receive, call);
  if (call.peer == rank()) return to_itself(operation);
  operation->link = engine_.link(channel_key(call.peer, rank()), {call.peer, rank()});
  return hand_over({call.peer, rank()}, operation);
}

OperationPointer NcclCommunicator::message(Operation::Kind kind, const MessageCall& call) {
  const auto operation = std::make_shared<Operation>(kind, rank(), call);
  if (call.peer < 0 || call.peer >= rank_count()) throw RuntimeError(fault_text(*operation, "there is no such rank"));
  return operation;
}

std::unique_ptr<Request> NcclCommunicator::hand_over(const LaneKey& lane, const OperationPointer& operation) {
  place_in_work(*operation);
  launch({{lane, operation}});
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
  // The later of the two points of the compute stream holds for both.
  other->ready = operation->ready;
  const LaneKey lane{rank(), rank()};
  launch({{lane, receive}, {lane, send}});
  return request(operation);
}

void NcclCommunicator::place_in_work(Operation& operation) {
  operation.ready = engine_.events().record(compute_.handle);
  operation.captured = captured_ != nullptr;
}

void NcclCommunicator::launch(const Operations& operations) {
  engine_.hand_over(operations);
  if (!captured_) return;
  for (const auto& [lane, operation] : operations) {
    engine_.await_launch(*operation);
    if (operation->is_in_graph()) captured_->emplace_back(lane, operation);
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
  captured_ = operations;
  try {
    communicate();
  } catch (...) {
    captured_ = nullptr;
    throw;
  }
  captured_ = nullptr;
  return std::make_unique<CapturedOperations>(engine_, compute_.handle, operations);
}

std::unique_ptr<Request> NcclCommunicator::request(const OperationPointer& operation) {
  return std::make_unique<NcclRequest>(engine_, *gpu_, compute_.handle, operation);
}

}  // namespace strata::nccl
