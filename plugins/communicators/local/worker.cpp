#include "worker.hpp"

#include <algorithm>

#include "collectives.hpp"

namespace strata::local {

namespace {

constexpr const char* kClosed = "this rank closed its communicator";

}  // namespace

Worker::Worker(std::shared_ptr<SharedState> shared, int rank, Device& device)
    : shared_(std::move(shared)), rank_(rank), device_(device), thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const Lock lock(shared_->mutex);
    closing_ = true;
    state().worker_changed.notify_all();
  }
  thread_.join();
}

void Worker::hand_over(const OperationPointer& operation) {
  const Lock lock(shared_->mutex);
  if (shared_->abort_reason()) raise(shared_->aborted(*operation));
  switch (operation->kind) {
    case Operation::Kind::collective:
      collectives_.push_back(operation);
      break;
    case Operation::Kind::receive:
      operation->deadline = shared_->deadline();
      state().receives.push_back(operation);
      break;
    case Operation::Kind::send:
      // Without an event the data is ready, so the receiver need not wait for this worker.
      if (!operation->ready) return shared_->post(operation);
      unpublished_sends_.push_back(operation);
      break;
  }
  state().worker_changed.notify_all();
}

void Worker::run() {
  Lock lock(shared_->mutex);
  while (!closing_ && !shared_->abort_reason()) {
    if (serve_message(lock)) continue;
    if (collectives_.empty()) {
      wait_for_change(lock, Clock::time_point::max());
      continue;
    }
    const OperationPointer operation = collectives_.front();
    collectives_.pop_front();
    run_collective(lock, operation);
  }
  fail_everything(kClosed);
  state().worker_changed.wait(lock, [this] { return closing_; });
  // Operations that were passed before the abort became visible.
  fail_everything(kClosed);
  shared_->withdraw(rank_, nullptr);
  state().worker_changed.wait(lock, [this] { return state().readers == 0; });
  state().left = true;
  for (int rank = 0; rank < shared_->rank_count(); ++rank) shared_->rank(rank).worker_changed.notify_all();
}

void Worker::fail_everything(const std::string& why) {
  const auto fail = [&](const OperationPointer& operation) {
    const bool aborted = shared_->abort_reason().has_value();
    shared_->finish(operation, aborted ? shared_->aborted(*operation) : Fault{fault_text(*operation, why), false});
  };
  std::for_each(collectives_.begin(), collectives_.end(), fail);
  std::for_each(unpublished_sends_.begin(), unpublished_sends_.end(), fail);
  std::for_each(state().receives.begin(), state().receives.end(), fail);
  collectives_.clear();
  unpublished_sends_.clear();
  state().receives.clear();
}

void Worker::await_buffers(const Operation& operation) {
  if (!operation.ready) return;
  device_.wait(StreamKind::communication, operation.ready);
  device_.synchronize(StreamKind::communication);
}

void Worker::run_collective(Lock& lock, const OperationPointer& operation) {
  std::optional<Fault> fault;
  try {
    lock.unlock();
    await_buffers(*operation);
    lock.lock();
    const std::shared_ptr<Meeting> meeting = shared_->arrive(operation);
    state().collective = operation;
    state().meeting = meeting;
    run_stages(lock, operation, *meeting);
  } catch (const Stop& stop) {
    fault = stop.fault;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    fault = Fault{fault_text(*operation, current_exception_text()), false};
  }
  // Once the meeting has failed no peer starts to read. Wait for the peers that are already reading.
  if (const std::shared_ptr<Meeting> meeting = state().meeting; meeting && fault) {
    shared_->fail(*meeting, fault->text);
    state().worker_changed.wait(lock, [&] { return meeting->working == 0; });
  }
  state().collective = nullptr;
  state().meeting = nullptr;
  shared_->finish(operation, std::move(fault));
}

void Worker::run_stages(Lock& lock, const OperationPointer& operation, Meeting& meeting) {
  const int index = meeting.group->index_of(rank_);
  const int stages = stage_count(operation->call.kind);
  for (int stage = 0; stage < stages; ++stage) {
    meet(lock, *operation, meeting, stage + 1);
    work(lock, *operation, meeting, index, stage);
    shared_->advance(meeting, index, stages + 1);
  }
  meet(lock, *operation, meeting, stages + 1);
}

void Worker::work(Lock& lock, const Operation& operation, Meeting& meeting, int index, int stage) {
  std::vector<const CollectiveCall*> calls;
  for (const OperationPointer& seat : meeting.seats) calls.push_back(&seat->call);
  ++meeting.working;
  lock.unlock();
  std::string fault;
  try {
    run_stage({device_, calls, index}, stage);
    device_.synchronize(StreamKind::communication);
  } catch (...) {
    fault = current_exception_text();
  }
  lock.lock();
  --meeting.working;
  if (!fault.empty()) stop(operation, meeting, fault);
  if (!meeting.fault.empty() && meeting.working == 0) shared_->wake_members(meeting);
}

void Worker::stop(const Operation& operation, Meeting& meeting, const std::string& why) {
  shared_->fail(meeting, why);
  throw Stop{{fault_text(operation, why), false}};
}

void Worker::meet(Lock& lock, const Operation& operation, Meeting& meeting, int stage) {
  const Clock::time_point deadline = shared_->deadline();
  while (true) {
    if (shared_->abort_reason()) throw Stop{shared_->aborted(operation)};
    if (!meeting.fault.empty()) stop(operation, meeting, meeting.fault);
    if (meeting.all_at(stage)) return;
    if (closing_) stop(operation, meeting, "rank " + std::to_string(rank_) + " closed its communicator");
    if (const std::string why = shared_->find_dead_end(operation, meeting, stage); !why.empty()) {
      stop(operation, meeting, why);
    }
    if (serve_message(lock)) continue;
    if (Clock::now() >= deadline) {
      std::vector<std::string> missing;
      for (std::size_t i = 0; i < meeting.arrived.size(); ++i) {
        if (meeting.arrived[i] < stage) missing.push_back(shared_->describe_rank(meeting.group->ranks[i]));
      }
      stop(operation, meeting, "waited " + shared_->timeout_text() + " for " + join(missing, "; "));
    }
    wait_for_change(lock, deadline);
  }
}

void Worker::wait_for_change(Lock& lock, Clock::time_point deadline) {
  for (const OperationPointer& receive : state().receives) deadline = std::min(deadline, receive->deadline);
  if (deadline == Clock::time_point::max()) {
    state().worker_changed.wait(lock);
  } else {
    state().worker_changed.wait_until(lock, deadline);
  }
}

bool Worker::serve_message(Lock& lock) {
  if (!unpublished_sends_.empty()) {
    const OperationPointer send = unpublished_sends_.front();
    unpublished_sends_.pop_front();
    publish(lock, send);
    return true;
  }
  std::vector<OperationPointer>& receives = state().receives;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const OperationPointer receive = receives[i];
    if (const OperationPointer send = shared_->take(*receive)) {
      receives.erase(receives.begin() + static_cast<std::ptrdiff_t>(i));
      copy_message(lock, receive, send);
      return true;
    }
    if (give_up(receive)) {
      receives.erase(receives.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
  }
  return false;
}

void Worker::publish(Lock& lock, const OperationPointer& send) {
  std::optional<Fault> fault;
  lock.unlock();
  try {
    await_buffers(*send);
  } catch (...) {
    fault = Fault{fault_text(*send, current_exception_text()), false};
  }
  lock.lock();
  if (fault) return shared_->finish(send, std::move(fault));
  // The sender may have timed out in the meantime.
  if (!send->done) shared_->post(send);
}

void Worker::copy_message(Lock& lock, const OperationPointer& receive, const OperationPointer& send) {
  std::string why;
  if (send->message.bytes != receive->message.bytes) {
    why = "rank " + std::to_string(send->rank) + " sends " + std::to_string(send->message.bytes) + " bytes, rank " +
          std::to_string(rank_) + " receives " + std::to_string(receive->message.bytes);
  } else if (receive->message.bytes > 0) {
    lock.unlock();
    try {
      await_buffers(*receive);
      device_.copy(StreamKind::communication, receive->message.data, send->message.data, receive->message.bytes);
      device_.synchronize(StreamKind::communication);
    } catch (...) {
      why = current_exception_text();
    }
    lock.lock();
  }
  for (const OperationPointer& end : {receive, send}) {
    shared_->finish(end, why.empty() ? std::nullopt : std::optional(Fault{fault_text(*end, why), false}));
  }
}

bool Worker::give_up(const OperationPointer& receive) {
  const int peer = receive->message.peer;
  const bool late = Clock::now() >= receive->deadline;
  if (!late && !shared_->rank(peer).left) return false;
  const std::string why = late ? "waited " + shared_->timeout_text() + " for " : "waits for ";
  shared_->finish(receive, Fault{fault_text(*receive, why + shared_->describe_rank(peer)), false});
  return true;
}

}  // namespace strata::local
