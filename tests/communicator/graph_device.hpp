#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "communicator/host_graph.hpp"
#include "communicator/stream_device.hpp"

namespace strata::testing {

/// A device with streams whose compute stream can be captured. Counts captures and launches.
class GraphDevice : public StreamDevice {
 public:
  [[nodiscard]] std::optional<std::string> uncapturable() const override { return std::nullopt; }
  [[nodiscard]] std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue_work) override {
    ++captures;
    const auto graph = std::make_shared<HostGraph>(stream(StreamKind::compute));
    graph->join(stream(StreamKind::compute));
    try {
      enqueue_work();
    } catch (...) {
      graph->cancel();
      throw;
    }
    if (!graph->end()) throw RuntimeError("a capture ends while not all of its work is waited for");
    return std::make_unique<Graph>(*this, graph);
  }

  int captures = 0;
  /// The steps in which graphs were launched.
  std::vector<std::uint64_t> launches;

 protected:
  /// Called before each launch of a graph.
  virtual void prepare_launch(const StepContext& /*step*/) {}

 private:
  class Graph final : public StepGraph {
   public:
    Graph(GraphDevice& device, std::shared_ptr<HostGraph> graph) : device_(device), graph_(std::move(graph)) {}
    void launch(const StepContext& step) override {
      device_.prepare_launch(step);
      device_.launches.push_back(step.step);
      graph_->launch();
    }

   private:
    GraphDevice& device_;
    std::shared_ptr<HostGraph> graph_;
  };
};

}  // namespace strata::testing
