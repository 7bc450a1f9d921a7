#include "collectives/communicator.hpp"

#include <exception>
#include <utility>

#include "collectives/message.hpp"
#include "operation.hpp"
#include "strata/error.hpp"

namespace strata::communicators {
namespace {

constexpr Slot kGroups = 4;

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

/// A message, which a worker may post.
class PostedMessage {
 public:
  PostedMessage(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<DeviceStream> stream,
                const TransportOperation& operation)
      : endpoint_(std::move(endpoint)), stream_(std::move(stream)), operation_(operation) {}

  void post() {
    endpoint_->perform(operation_, [this] {
      stream_->await(operation_.ready);
      message_.post();
    });
  }
  void wait() {
    posted->wait();
    endpoint_->perform(operation_, [this] { message_.await(); });
  }

  const std::shared_ptr<Completion> posted = std::make_shared<Completion>();

 private:
  std::shared_ptr<Endpoint> endpoint_;
  std::shared_ptr<DeviceStream> stream_;
  TransportOperation operation_;
  Message message_{*endpoint_, *stream_, operation_};
};

class MessageRequest final : public Request {
 public:
  explicit MessageRequest(std::shared_ptr<PostedMessage> message) : message_(std::move(message)) {}
  void wait() override { message_->wait(); }

 private:
  std::shared_ptr<PostedMessage> message_;
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
  const auto message = std::make_shared<PostedMessage>(endpoint_, stream_, operation);
  if (!operation.ready && late_messages_.is_idle()) {
    message->post();
    message->posted->set(nullptr);
  } else {
    add(late_messages_, message->posted, [message] { message->post(); });
  }
  return std::make_unique<MessageRequest>(message);
}

}  // namespace strata::communicators
