#include "lane.hpp"

#include <sstream>
#include <utility>

#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::nccl {
namespace {

/// Does `work`; an error of it names the operation.
template <class Work>
auto named(const Operation& operation, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    throw RuntimeError(fault_text(operation, error.what()));
  }
}

}  // namespace

Lane::Lane(Backend backend, std::shared_ptr<EventPool> events, std::chrono::duration<double> timeout,
           std::function<void(const OperationPointer&)> launched)
    : backend_(std::move(backend)),
      events_(std::move(events)),
      timeout_(timeout),
      launched_(std::move(launched)),
      stream_(backend_.gpu->create_stream()) {}

Lane::~Lane() { backend_.gpu->destroy_stream(stream_); }

void Lane::push(OperationPointer operation) {
  if (!operation->launched) return queue_.push_back(std::move(operation));
  // Its time begins anew, whether or not it was seen to end the last time.
  if (watched_ == operation) watched_ = nullptr;
  std::erase(running_, operation);
  running_.push_back(std::move(operation));
}

Activity Lane::advance() {
  while (launch_next()) {
  }
  retire();
  const OperationPointer first = oldest();
  if (!first) return Activity::idle;
  watch(first);
  return launching_ || !queue_.empty() ? Activity::launching : Activity::running;
}

bool Lane::launch_next() {
  if (launching_) {
    const OperationPointer operation = launching_;
    if (!named(*operation, [&] { return operation->link->is_idle(); })) return false;
    launching_ = nullptr;
    finish_launch(operation);
    return true;
  }
  if (queue_.empty()) return false;
  const OperationPointer operation = queue_.front();
  return named(*operation, [&] {
    if (operation->uses_link() && !operation->link->advance()) return false;
    queue_.pop_front();
    backend_.gpu->wait(stream_, operation->ready.get());
    if (operation->is_in_graph()) operation->begun = events_->record_in_graph(stream_);
    if (enqueue(*operation, *backend_.nccl, *backend_.gpu, stream_)) {
      launching_ = operation;
    } else {
      finish_launch(operation);
    }
    return true;
  });
}

void Lane::finish_launch(const OperationPointer& operation) {
  if (operation->is_in_graph()) operation->ended = events_->record_in_graph(stream_);
  operation->done = events_->record(stream_);
  if (!operation->captured) running_.push_back(operation);
  launched_(operation);
}

void Lane::retire() {
  while (!running_.empty()) {
    const OperationPointer operation = running_.front();
    const EventPointer& end = operation->captured ? operation->ended : operation->done;
    if (!backend_.gpu->is_reached(end.get())) {
      // NCCL reports what fails on the GPU or on another rank when it is asked.
      if (operation->uses_link()) named(*operation, [&] { return operation->link->is_idle(); });
      return;
    }
    running_.pop_front();
  }
}

OperationPointer Lane::oldest() const {
  if (!running_.empty()) return running_.front();
  if (launching_) return launching_;
  return queue_.empty() ? nullptr : queue_.front();
}

void Lane::watch(const OperationPointer& operation) {
  if (watched_ != operation) {
    watched_ = operation;
    since_.reset();
  }
  const rendezvous::Clock::time_point now = rendezvous::Clock::now();
  if (!since_ && may_run(*operation)) since_ = now;
  if (since_ && now - *since_ > timeout_) give_up(*operation);
}

/// Until its buffers are ready it waits for this rank's own work.
bool Lane::may_run(const Operation& operation) const {
  if (!operation.captured) return backend_.gpu->is_reached(operation.ready.get());
  // Nothing runs in a capture; it is NCCL that makes ready.
  return !operation.launched || backend_.gpu->is_reached(operation.begun.get());
}

void Lane::give_up(const Operation& operation) const {
  std::ostringstream why;
  why << "waited " << timeout_.count() << " s for ";
  if (operation.kind == Operation::Kind::collective) {
    why << "the other ranks of " << communicators::rank_list(operation.link->ranks());
  } else {
    why << "rank " << operation.message.peer;
  }
  if (!operation.launched) why << ", with whom no connection has come about";
  throw RuntimeError(fault_text(operation, why.str()));
}

bool Lane::drain() noexcept {
  queue_.clear();
  running_.clear();
  launching_ = nullptr;
  try {
    if (!end_) end_ = events_->record(stream_);
    return backend_.gpu->is_reached(end_.get());
  } catch (const std::exception&) {
    // Nothing runs on a GPU that has failed, nor on a stream that was being captured.
    return true;
  }
}

}  // namespace strata::nccl
