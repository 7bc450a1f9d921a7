#include "lane.hpp"

#include <utility>

namespace strata::nccl {
namespace {

constexpr unsigned char kSet = 1;

}  // namespace

Lane::Lane(Backend backend, std::shared_ptr<EventPool> events, std::chrono::duration<double> timeout)
    : backend_(std::move(backend)),
      events_(std::move(events)),
      patience_(timeout),
      stream_(backend_.gpu->create_stream()) {}

Lane::~Lane() { backend_.gpu->destroy_stream(stream_); }

bool Lane::begin(Operation& operation) {
  backend_.gpu->wait(stream_, operation.ready.get());
  for (const OperationPointer& other : operation.after) backend_.gpu->wait(stream_, other->done.get());
  operation.after.clear();
  if (operation.marks) backend_.gpu->fill(stream_, operation.marks->begun, kSet, 1);
  return enqueue(operation, *backend_.nccl, *backend_.gpu, stream_);
}

void Lane::finish(const OperationPointer& operation) {
  if (operation->marks) backend_.gpu->fill(stream_, operation->marks->ended, kSet, 1);
  operation->done = events_->record(stream_);
  if (!operation->captured) running_.push_back(operation);
}

Activity Lane::advance() {
  retire();
  if (running_.empty()) return Activity::idle;
  const OperationPointer& first = running_.front();
  // The timeout starts when the buffers are ready. Until then the operation waits for this rank's own work.
  patience_.watch(first, backend_.gpu->is_reached(first->ready.get()));
  return Activity::running;
}

void Lane::retire() {
  while (!running_.empty()) {
    const OperationPointer operation = running_.front();
    if (!backend_.gpu->is_reached(operation->done.get())) {
      // NCCL reports failures of the GPU or another rank only when asked.
      if (operation->uses_link()) named(*operation, [&] { return operation->link->is_idle(); });
      return;
    }
    running_.pop_front();
  }
}

bool Lane::drain() noexcept {
  running_.clear();
  try {
    if (!end_) end_ = events_->record(stream_);
    return backend_.gpu->is_reached(end_.get());
  } catch (...) {
    // A failed GPU executes nothing. Neither does a stream that was being captured.
    return true;
  }
}

}  // namespace strata::nccl
