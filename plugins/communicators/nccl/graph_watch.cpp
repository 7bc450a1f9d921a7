#include "graph_watch.hpp"

#include <algorithm>
#include <utility>

namespace strata::nccl {

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
