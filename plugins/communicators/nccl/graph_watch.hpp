#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "backend.hpp"
#include "lane.hpp"

namespace strata::nccl {

/// Watches the communication of graphs from each launch to its end. Used by the progress thread only.
class GraphWatch {
 public:
  GraphWatch(std::shared_ptr<GpuRuntime> gpu, std::chrono::duration<double> timeout)
      : gpu_(std::move(gpu)), timeout_(timeout) {}

  /// Adds a launch of the graph with these operations. `end`: the event after which their marks are cleared.
  void launched(std::shared_ptr<const Operations> operations, EventPointer end);
  [[nodiscard]] bool is_empty() const { return graphs_.empty(); }
  /// Checks the launches. \throws RuntimeError that names a communication that has failed, or whose peers did not take
  /// part in time.
  [[nodiscard]] Activity advance();
  void clear() { graphs_.clear(); }

 private:
  struct Graph {
    std::shared_ptr<const Operations> operations;
    /// The end events of the launches in flight, the earliest launch first.
    std::deque<EventPointer> ends;
    /// For each operation, when the current launch started it. Empty if it has not.
    std::vector<std::optional<rendezvous::Clock::time_point>> since;
  };

  /// Checks one graph. \return false if no launch of it is in flight.
  [[nodiscard]] bool advance(Graph& graph) const;
  void watch(Graph& graph, std::size_t index) const;

  std::shared_ptr<GpuRuntime> gpu_;
  std::chrono::duration<double> timeout_;
  std::vector<Graph> graphs_;
};

}  // namespace strata::nccl
