#include "collectives/communicator.hpp"

#include <exception>
#include <utility>

#include "collectives/card.hpp"
#include "operation.hpp"
#include "strata/error.hpp"

namespace strata::communicators {
namespace {

constexpr Slot kGroups = 4;

// Slots of a message's transfers.
constexpr Slot kFromSender = 1;
constexpr Slot kFromReceiver = 2;
constexpr Slot kData = 3;
constexpr auto kCardBytes = static_cast<std::int64_t>(sizeof(Card));

class CollectiveRequest final : public Request {
 public:
  CollectiveRequest(std::shared_ptr<Worker> worker, std::shared_ptr<Completion> completion)
      : worker_(std::move(worker)), completion_(std::move(completion)) {}
  void wait() override {
    worker_->help_until([this] { return completion_->is_set(); });
    completion_->wait();
  }

 private:
  std::shared_ptr<Worker> worker_;
  std::shared_ptr<Completion> completion_;
};

/// One end of a message, which a worker may post. Each end sends the other a card with its length, so that both learn
/// if the lengths differ. A short message travels with the card of the sender.
class Message {
 public:
  Message(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<DeviceStream> stream, const TransportOperation& operation)
      : endpoint_(std::move(endpoint)),
        stream_(std::move(stream)),
        operation_(operation),
        is_short_(stream_->is_host_memory() && operation.message.bytes <= Envelope::kPayload) {}

  /// Posts the transfers. Does not wait for the peer.
  void post() {
    endpoint_->perform(operation_, [this] {
      stream_->await(operation_.ready);
      post_transfers();
    });
  }
  void wait() {
    posted->wait();
    endpoint_->perform(operation_, [this] { await_peer(); });
  }

  const std::shared_ptr<Completion> posted = std::make_shared<Completion>();

 private:
  void post_transfers();
  void await_peer();

  std::shared_ptr<Endpoint> endpoint_;
  std::shared_ptr<DeviceStream> stream_;
  TransportOperation operation_;
  bool is_short_;
  std::unique_ptr<Envelope> sent_ = std::make_unique<Envelope>();
  std::unique_ptr<Envelope> received_ = std::make_unique<Envelope>();
  std::unique_ptr<Transfer> own_card_;
  std::unique_ptr<Transfer> card_of_peer_;
  std::unique_ptr<Transfer> data_;
};

void Message::post_transfers() {
  const MessageCall& call = operation_.message;
  Transport& transport = endpoint_->transport();
  const Slot data = mix(mix(kData, call.id), static_cast<std::uint64_t>(call.bytes));
  const Parcel parcel{call.peer, data, call.data, call.bytes};
  sent_->card.elements = call.bytes;
  if (operation_.kind == Operation::Kind::send) {
    if (is_short_) stream_->copy(sent_->payload, call.data, call.bytes);
    card_of_peer_ = transport.receive({call.peer, mix(kFromReceiver, call.id), received_.get(), kCardBytes});
    const std::int64_t unused = Envelope::kPayload - (is_short_ ? call.bytes : 0);
    own_card_ = transport.send({call.peer, mix(kFromSender, call.id), sent_.get(), kEnvelopeBytes, unused});
    if (!is_short_) data_ = transport.send(parcel);
  } else {
    card_of_peer_ = transport.receive({call.peer, mix(kFromSender, call.id), received_.get(), kEnvelopeBytes});
    own_card_ = transport.send({call.peer, mix(kFromReceiver, call.id), sent_.get(), kCardBytes});
    if (!is_short_) data_ = transport.receive(parcel);
  }
}

void Message::await_peer() {
  const MessageCall& call = operation_.message;
  const auto await = [&](Transfer& transfer) {
    endpoint_->await(operation_, transfer, call.peer, endpoint_->deadline());
  };
  await(*card_of_peer_);
  // The peer has this rank's card before this rank may fail, so that it fails for the same reason.
  await(*own_card_);
  const std::int64_t bytes_of_peer = received_->card.elements;
  const bool sends = operation_.kind == Operation::Kind::send;
  if (bytes_of_peer != call.bytes) {
    const std::string own = std::to_string(operation_.rank) + (sends ? " sends " : " receives ");
    const std::string other = std::to_string(call.peer) + (sends ? " receives " : " sends ");
    const std::string own_text = "rank " + own + std::to_string(call.bytes);
    const std::string text_of_peer = "rank " + other + std::to_string(bytes_of_peer);
    throw RuntimeError(sends ? own_text + " bytes, " + text_of_peer : text_of_peer + " bytes, " + own_text);
  }
  if (data_) await(*data_);
  if (is_short_ && !sends) stream_->copy(call.data, received_->payload, call.bytes);
}

class MessageRequest final : public Request {
 public:
  explicit MessageRequest(std::shared_ptr<Message> message) : message_(std::move(message)) {}
  void wait() override { message_->wait(); }

 private:
  std::shared_ptr<Message> message_;
};

}  // namespace

TransportCommunicator::TransportCommunicator(std::unique_ptr<Transport> transport, int rank, int rank_count,
                                             Device& device, std::shared_ptr<DeviceStream> stream,
                                             std::chrono::duration<double> timeout)
    : rank_(rank),
      rank_count_(rank_count),
      device_(device),
      stream_(std::move(stream)),
      endpoint_(std::make_shared<Endpoint>(std::move(transport), rank, timeout)) {}

TransportCommunicator::~TransportCommunicator() {
  endpoint_->leave(tasks_ > 0);
  collectives_->close();
  if (!endpoint_->has_ended()) endpoint_->transport().leave();
}

int TransportCommunicator::create_group(const std::vector<int>& ranks) {
  require_group(ranks, rank_, rank_count_);
  std::shared_ptr<Group>& group = groups_by_ranks_[ranks];
  if (!group) {
    group = std::make_shared<Group>(Group{ranks, mix(kGroups, ranks.size())});
    for (const int rank : ranks) group->slot = mix(group->slot, static_cast<std::uint64_t>(rank));
  }
  groups_.push_back(group);
  return static_cast<int>(groups_.size()) - 1;
}

std::unique_ptr<Request> TransportCommunicator::start(const CollectiveCall& call) {
  const auto operation = std::make_shared<TransportOperation>(rank_, call);
  if (call.group < 0 || call.group >= static_cast<int>(groups_.size())) {
    throw RuntimeError(fault_text(*operation, "there is no group " + std::to_string(call.group)));
  }
  const std::shared_ptr<Group>& group = groups_[static_cast<std::size_t>(call.group)];
  const std::string misuse = find_misuse(call, group->size(), group->index_of(rank_));
  if (!misuse.empty()) throw RuntimeError(fault_text(*operation, misuse));
  operation->group = group;
  operation->slot = mix(group->slot, group->started++);
  operation->ready = device_.record(StreamKind::compute);
  const auto completion = std::make_shared<Completion>();
  add(*collectives_, completion, [this, operation] { run(*operation); });
  return std::make_unique<CollectiveRequest>(collectives_, completion);
}

void TransportCommunicator::add(Worker& worker, const std::shared_ptr<Completion>& completion,
                                std::function<void()> work) {
  ++tasks_;
  worker.add([this, completion, work = std::move(work)] {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    // Before the rank's thread goes on, which may destroy the communicator.
    --tasks_;
    completion->set(std::move(error));
  });
}

void TransportCommunicator::run(const TransportOperation& operation) {
  // It ends its transfers after the others have been told of an error.
  Collective collective(*endpoint_, *stream_, operation, staging_);
  endpoint_->perform(operation, [&] {
    stream_->await(operation.ready);
    collective.run();
  });
}

std::unique_ptr<Request> TransportCommunicator::send(const MessageCall& call) {
  return message(Operation::Kind::send, call);
}

std::unique_ptr<Request> TransportCommunicator::receive(const MessageCall& call) {
  return message(Operation::Kind::receive, call);
}

std::unique_ptr<Request> TransportCommunicator::message(Operation::Kind kind, const MessageCall& call) {
  TransportOperation operation(kind, rank_, call);
  if (call.peer < 0 || call.peer >= rank_count_) throw RuntimeError(fault_text(operation, "there is no such rank"));
  operation.ready = device_.record(StreamKind::compute);
  const auto message = std::make_shared<Message>(endpoint_, stream_, operation);
  if (!operation.ready && late_messages_.is_idle()) {
    message->post();
    message->posted->set(nullptr);
  } else {
    add(late_messages_, message->posted, [message] { message->post(); });
  }
  return std::make_unique<MessageRequest>(message);
}

}  // namespace strata::communicators
