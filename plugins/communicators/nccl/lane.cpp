#include "lane.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "backend.hpp"
#include "collectives/operation.hpp"
#include "strata/error.hpp"

namespace strata::nccl {
namespace {

constexpr unsigned char kSet = 1;

}  // namespace

void give_up(const Operation& operation, std::chrono::duration<double> timeout) {
  std::ostringstream why;
  why << "waited " << timeout.count() << " s for ";
  if (operation.kind == Operation::Kind::collective) {
    why << "the other ranks of " << communicators::rank_list(operation.link->ranks());
  } else {
    why << "rank " << operation.message.peer;
  }
  if (!operation.launched) why << ", to whom no connection was established";
  throw RuntimeError(fault_text(operation, why.str()));
}

void Patience::watch(const OperationPointer& operation, bool may_run) {
  if (watched_ != operation) {
    watched_ = operation;
    since_.reset();
  }
  const rendezvous::Clock::time_point now = rendezvous::Clock::now();
  if (!since_ && may_run) since_ = now;
  if (since_ && now - *since_ > timeout_) give_up(*operation, timeout_);
}

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

LaunchQueue::LaunchQueue(std::shared_ptr<GpuRuntime> gpu, std::chrono::duration<double> timeout,
                         std::function<void(const OperationPointer&)> launched)
    : gpu_(std::move(gpu)), patience_(timeout), launched_(std::move(launched)) {}

Activity LaunchQueue::advance(int blocks) {
  while (!queue_.empty() && launch_front(blocks)) {
  }
  if (queue_.empty()) return Activity::idle;
  const OperationPointer& first = queue_.front().operation;
  patience_.watch(first, may_run(*first));
  return Activity::launching;
}

bool LaunchQueue::launch_front(int blocks) {
  Entry& entry = queue_.front();
  const OperationPointer operation = entry.operation;
  const bool is_there = named(*operation, [&] {
    if (entry.is_launching) return operation->link->is_idle();
    if (operation->uses_link() && !operation->link->advance(blocks)) return false;
    entry.is_launching = entry.lane->begin(*operation);
    return !entry.is_launching || operation->link->is_idle();
  });
  if (!is_there) return false;
  entry.lane->finish(operation);
  queue_.pop_front();
  launched_(operation);
  return true;
}

/// True if the timeout of an operation runs. During a capture nothing runs on the GPU, so the timeout then covers the
/// set-up by NCCL.
bool LaunchQueue::may_run(const Operation& operation) const {
  return operation.captured || gpu_->is_reached(operation.ready.get());
}

using rendezvous::Clock;

void GraphWatch::launched(std::shared_ptr<const Operations> operations, EventPointer end) {
  auto graph =
      std::find_if(graphs_.begin(), graphs_.end(), [&](const Graph& each) { return each.operations == operations; });
  if (graph == graphs_.end()) {
    const std::size_t count = operations->size();
    graph = graphs_.insert(graphs_.end(), {std::move(operations), {}, {}});
    graph->since.resize(count);
  }
  graph->ends.push_back(std::move(end));
}

Activity GraphWatch::advance() {
  std::erase_if(graphs_, [this](Graph& graph) { return !advance(graph); });
  return graphs_.empty() ? Activity::idle : Activity::running;
}

bool GraphWatch::advance(Graph& graph) const {
  while (!graph.ends.empty() && gpu_->is_reached(graph.ends.front().get())) {
    graph.ends.pop_front();
    // The timeouts of the next launch start anew.
    std::fill(graph.since.begin(), graph.since.end(), std::nullopt);
  }
  if (graph.ends.empty()) return false;
  for (std::size_t i = 0; i < graph.since.size(); ++i) watch(graph, i);
  return true;
}

void GraphWatch::watch(Graph& graph, std::size_t index) const {
  const Operation& operation = *(*graph.operations)[index];
  std::optional<Clock::time_point>& since = graph.since[index];
  if (!operation.marks->is_begun() || operation.marks->is_ended()) {
    since.reset();
    return;
  }
  // NCCL reports failures of the GPU or another rank only when asked.
  named(operation, [&] { return operation.link->is_idle(); });
  const Clock::time_point now = Clock::now();
  if (!since) since = now;
  if (now - *since > timeout_) give_up(operation, timeout_);
}

}  // namespace strata::nccl
