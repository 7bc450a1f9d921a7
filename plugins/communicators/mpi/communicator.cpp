#include "communicator.hpp"

#include <algorithm>
#include <utility>

#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::mpi {
namespace {

class MpiRequest final : public Request {
 public:
  MpiRequest(std::shared_ptr<Engine> engine, OperationPointer operation)
      : engine_(std::move(engine)), operation_(std::move(operation)) {}

  void wait() override { engine_->wait(*operation_); }

 private:
  std::shared_ptr<Engine> engine_;
  OperationPointer operation_;
};

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<Engine> engine, int rank, int rank_count, Device& device)
    : engine_(std::move(engine)), rank_(rank), rank_count_(rank_count), device_(device) {
  engine_->open(device);
}

MpiCommunicator::~MpiCommunicator() { engine_->close(); }

int MpiCommunicator::create_group(const std::vector<int>& ranks) {
  communicators::require_group(ranks, rank_, rank_count_);
  const auto known =
      std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) { return group->ranks == ranks; });
  groups_.push_back(known != groups_.end() ? *known : std::make_shared<Group>(ranks));
  return static_cast<int>(groups_.size()) - 1;
}

std::unique_ptr<Request> MpiCommunicator::start(const CollectiveCall& call) {
  const auto operation = std::make_shared<Operation>(rank_, call);
  if (call.group < 0 || call.group >= static_cast<int>(groups_.size())) {
    throw RuntimeError(fault_text(*operation, "there is no group " + std::to_string(call.group)));
  }
  const std::shared_ptr<Group>& group = groups_[static_cast<std::size_t>(call.group)];
  const std::string misuse = communicators::find_misuse(call, group->size(), group->index_of(rank_));
  if (!misuse.empty()) throw RuntimeError(fault_text(*operation, misuse));
  operation->group = group;
  operation->sequence = group->started++;
  return hand_over(operation);
}

std::unique_ptr<Request> MpiCommunicator::send(const MessageCall& call) { return message(Operation::Kind::send, call); }

std::unique_ptr<Request> MpiCommunicator::receive(const MessageCall& call) {
  return message(Operation::Kind::receive, call);
}

std::unique_ptr<Request> MpiCommunicator::message(Operation::Kind kind, const MessageCall& call) {
  const auto operation = std::make_shared<Operation>(kind, rank_, call);
  if (call.peer < 0 || call.peer >= rank_count_) throw RuntimeError(fault_text(*operation, "there is no such rank"));
  return hand_over(operation);
}

std::unique_ptr<Request> MpiCommunicator::hand_over(const OperationPointer& operation) {
  operation->ready = device_.record(StreamKind::compute);
  engine_->hand_over(operation);
  return std::make_unique<MpiRequest>(engine_, operation);
}

void MpiCommunicator::abort(const std::string& reason) noexcept { engine_->abort(reason); }

}  // namespace strata::mpi
