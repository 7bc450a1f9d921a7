#include "communicator.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "message.hpp"
#include "pipe_signal.hpp"
#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::gloo {
namespace {

constexpr Slot kGroups = 5;
constexpr Slot kGoodbye = 6;
/// Time beyond the timeout that a rank waits for the others at its end.
constexpr std::chrono::seconds kMorePatience{5};

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

/// A message to or from another rank.
class MessageRequest final : public Request {
 public:
  MessageRequest(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<const Operation> operation)
      : endpoint_(std::move(endpoint)), operation_(std::move(operation)), message_(*endpoint_, *operation_) {}

  void post() {
    endpoint_->perform(*operation_, [this] { message_.post(); });
  }
  const std::shared_ptr<Completion>& posted() { return posted_; }

  void wait() override {
    posted_->wait();
    endpoint_->perform(*operation_, [this] { message_.await(); });
  }

 private:
  std::shared_ptr<Endpoint> endpoint_;
  std::shared_ptr<const Operation> operation_;
  Message message_;
  std::shared_ptr<Completion> posted_ = std::make_shared<Completion>();
};

/// Shares a request with the worker that posts it.
class SharedRequest final : public Request {
 public:
  explicit SharedRequest(std::shared_ptr<MessageRequest> request) : request_(std::move(request)) {}
  void wait() override { request_->wait(); }

 private:
  std::shared_ptr<MessageRequest> request_;
};

/// A message of a rank to itself.
class OwnRequest final : public Request {
 public:
  OwnRequest(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<OwnMessages> messages,
             std::shared_ptr<const Operation> operation)
      : endpoint_(std::move(endpoint)), messages_(std::move(messages)), operation_(std::move(operation)) {}

  void wait() override {
    if (operation_->kind == Operation::Kind::send) return;
    endpoint_->perform(*operation_, [this] { messages_->receive(operation_->message, *endpoint_); });
  }

 private:
  std::shared_ptr<Endpoint> endpoint_;
  std::shared_ptr<OwnMessages> messages_;
  std::shared_ptr<const Operation> operation_;
};

}  // namespace

GlooCommunicator::GlooCommunicator(std::shared_ptr<Endpoint> endpoint, int rank, int rank_count, Device& device)
    : rank_(rank), rank_count_(rank_count), device_(device), endpoint_(std::move(endpoint)) {}

GlooCommunicator::~GlooCommunicator() {
  if (tasks_ > 0) {
    endpoint_->watch().abort("rank " + std::to_string(rank_) + " closed its communicator during communication");
  }
  collectives_->close();
  if (rank_count_ > 1 && !endpoint_->watch().end()) say_goodbye();
}

void GlooCommunicator::say_goodbye() {
  try {
    const PipeSignalBlocked blocked;
    char nothing = 0;
    std::vector<Transfer> transfers;
    std::vector<char> received(static_cast<std::size_t>(rank_count_));
    for (int peer = 0; peer < rank_count_; ++peer) {
      if (peer == rank_) continue;
      transfers.emplace_back(*endpoint_, peer, &received[static_cast<std::size_t>(peer)], 1).receive(kGoodbye, 0, 1);
      transfers.emplace_back(*endpoint_, peer, &nothing, 1).send(kGoodbye, 0, 1);
    }
    // A rank that still waits for this one gives up first, and names what it waits for.
    const Clock::time_point deadline = endpoint_->deadline() + kMorePatience;
    for (Transfer& transfer : transfers) {
      transfer.await_received(deadline);
      transfer.await_sent(deadline);
    }
  } catch (...) {
    // This rank has done its part. The others report what has failed.
  }
}

int GlooCommunicator::create_group(const std::vector<int>& ranks) {
  communicators::require_group(ranks, rank_, rank_count_);
  std::shared_ptr<CountedGroup>& group = groups_by_ranks_[ranks];
  if (!group) {
    group = std::make_shared<CountedGroup>();
    group->ranks = ranks;
    group->slot = mix(kGroups, ranks.size());
    for (const int rank : ranks) group->slot = mix(group->slot, static_cast<std::uint64_t>(rank));
  }
  groups_.push_back(group);
  return static_cast<int>(groups_.size()) - 1;
}

std::unique_ptr<Request> GlooCommunicator::start(const CollectiveCall& call) {
  const auto operation = std::make_shared<Operation>(rank_, call);
  if (call.group < 0 || call.group >= static_cast<int>(groups_.size())) {
    throw RuntimeError(fault_text(*operation, "there is no group " + std::to_string(call.group)));
  }
  const std::shared_ptr<CountedGroup>& group = groups_[static_cast<std::size_t>(call.group)];
  const std::string misuse = communicators::find_misuse(call, group->size(), group->index_of(rank_));
  if (!misuse.empty()) throw RuntimeError(fault_text(*operation, misuse));
  operation->group = group;
  operation->number = group->started++;
  operation->ready = device_.record(StreamKind::compute);
  const auto completion = std::make_shared<Completion>();
  add(*collectives_, completion, [this, operation] { endpoint_->perform(*operation, [&] { run(*operation); }); });
  return std::make_unique<CollectiveRequest>(collectives_, completion);
}

void GlooCommunicator::add(Worker& worker, const std::shared_ptr<Completion>& completion, std::function<void()> work) {
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
    completion->set(error);
  });
}

void GlooCommunicator::run(const Operation& operation) {
  if (endpoint_->watch().end()) throw Stopped{};
  stream_.await(operation.ready);
  if (operation.group->size() > 1) return Collective(*endpoint_, stream_, operation, staging_).run();
  const CollectiveCall& call = operation.call;
  stream_.copy(call.output, call.input, call.elements * static_cast<std::int64_t>(size_of(call.dtype)));
}

std::unique_ptr<Request> GlooCommunicator::send(const MessageCall& call) {
  return message(Operation::Kind::send, call);
}

std::unique_ptr<Request> GlooCommunicator::receive(const MessageCall& call) {
  return message(Operation::Kind::receive, call);
}

std::unique_ptr<Request> GlooCommunicator::message(Operation::Kind kind, const MessageCall& call) {
  const auto operation = std::make_shared<Operation>(kind, rank_, call);
  if (call.peer < 0 || call.peer >= rank_count_) throw RuntimeError(fault_text(*operation, "there is no such rank"));
  operation->ready = device_.record(StreamKind::compute);
  if (call.peer == rank_) {
    stream_.await(operation->ready);
    if (kind == Operation::Kind::send) own_messages_->send(call);
    return std::make_unique<OwnRequest>(endpoint_, own_messages_, operation);
  }
  const auto request = std::make_shared<MessageRequest>(endpoint_, operation);
  if (!operation->ready && late_messages_.is_idle()) {
    const PipeSignalBlocked blocked;
    request->post();
    request->posted()->set(nullptr);
  } else {
    add(late_messages_, request->posted(), [this, operation, request] {
      stream_.await(operation->ready);
      request->post();
    });
  }
  return std::make_unique<SharedRequest>(request);
}

void GlooCommunicator::abort(const std::string& reason) noexcept { endpoint_->watch().abort(reason); }

void GlooCommunicator::check() {
  const auto end = endpoint_->watch().end();
  if (!end) return;
  if (end->is_own) throw RuntimeError(end->reason);
  throw AbortedError("rank " + std::to_string(rank_) + ": stopped because " + end->reason);
}

}  // namespace strata::gloo
