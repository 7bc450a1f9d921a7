#include "communicator.hpp"

#include <mutex>

#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::local {

namespace {

class LocalRequest final : public Request {
 public:
  LocalRequest(std::shared_ptr<SharedState> shared, OperationPointer operation)
      : shared_(std::move(shared)), operation_(std::move(operation)) {}

  void wait() override {
    std::unique_lock lock(shared_->mutex);
    if (operation_->kind == Operation::Kind::send) {
      wait_for_receiver(lock);
    } else {
      // No timeout here, because the worker ends every operation, also after the timeout.
      changed().wait(lock, [this] { return operation_->done; });
    }
    if (operation_->fault) raise(*operation_->fault);
  }

 private:
  std::condition_variable& changed() { return shared_->rank(operation_->rank).request_changed; }

  void wait_for_receiver(std::unique_lock<std::mutex>& lock) {
    const Clock::time_point deadline = shared_->deadline();
    OperationPointer& awaited = shared_->rank(operation_->rank).awaited_send;
    awaited = operation_;
    while (!operation_->done) {
      const bool late = Clock::now() >= deadline;
      if (!operation_->taken && (late || shared_->abort_reason())) {
        shared_->withdraw(operation_->rank, operation_.get());
        shared_->finish(operation_, shared_->abort_reason() ? shared_->aborted(*operation_) : timeout());
      } else if (late) {
        changed().wait(lock);
      } else {
        changed().wait_until(lock, deadline);
      }
    }
    awaited = nullptr;
  }

  Fault timeout() {
    return {fault_text(*operation_, "waited " + shared_->timeout_text() + " for " +
                                        shared_->describe_rank(operation_->message.peer)),
            false};
  }

  std::shared_ptr<SharedState> shared_;
  OperationPointer operation_;
};

}  // namespace

LocalCommunicator::LocalCommunicator(std::shared_ptr<SharedState> shared, int rank, Device& device)
    : shared_(std::move(shared)), rank_(rank), device_(device), worker_(shared_, rank, device) {}

int LocalCommunicator::create_group(const std::vector<int>& ranks) {
  communicators::require_group(ranks, rank_, rank_count());
  const std::lock_guard lock(shared_->mutex);
  groups_.push_back(shared_->group(ranks));
  return static_cast<int>(groups_.size()) - 1;
}

std::unique_ptr<Request> LocalCommunicator::start(const CollectiveCall& call) {
  const auto operation = std::make_shared<Operation>(rank_, call);
  if (call.group < 0 || call.group >= static_cast<int>(groups_.size())) {
    throw RuntimeError(fault_text(*operation, "there is no group " + std::to_string(call.group)));
  }
  operation->group = groups_[static_cast<std::size_t>(call.group)];
  const std::string misuse =
      communicators::find_misuse(call, operation->group->size(), operation->group->index_of(rank_));
  if (!misuse.empty()) throw RuntimeError(fault_text(*operation, misuse));
  return hand_over(operation);
}

std::unique_ptr<Request> LocalCommunicator::send(const MessageCall& call) {
  return message(Operation::Kind::send, call);
}

std::unique_ptr<Request> LocalCommunicator::receive(const MessageCall& call) {
  return message(Operation::Kind::receive, call);
}

std::unique_ptr<Request> LocalCommunicator::message(Operation::Kind kind, const MessageCall& call) {
  const auto operation = std::make_shared<Operation>(kind, rank_, call);
  if (call.peer < 0 || call.peer >= rank_count()) throw RuntimeError(fault_text(*operation, "there is no such rank"));
  return hand_over(operation);
}

std::unique_ptr<Request> LocalCommunicator::hand_over(const OperationPointer& operation) {
  operation->ready = device_.record(StreamKind::compute);
  worker_.hand_over(operation);
  return std::make_unique<LocalRequest>(shared_, operation);
}

void LocalCommunicator::abort(const std::string& reason) noexcept {
  const std::lock_guard lock(shared_->mutex);
  shared_->abort(reason);
}

}  // namespace strata::local
