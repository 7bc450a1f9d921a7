#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "communicator/host_graph.hpp"
#include "communicator/stream_device.hpp"

namespace strata::testing {

/// A device with streams whose compute stream can be captured.
class GraphDevice : public StreamDevice {
 public:
  [[nodiscard]] std::optional<std::string> uncapturable() const override { return std::nullopt; }
  [[nodiscard]] std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue_work) override {
    const auto graph = std::make_shared<HostGraph>(stream(StreamKind::compute));
    graph->join(stream(StreamKind::compute));
    try {
      enqueue_work();
    } catch (...) {
      graph->cancel();
      throw;
    }
    if (!graph->end()) throw RuntimeError("a capture ends while not all of its work is waited for");
    return std::make_unique<Graph>(graph);
  }

 private:
  class Graph final : public StepGraph {
   public:
    explicit Graph(std::shared_ptr<HostGraph> graph) : graph_(std::move(graph)) {}
    void launch(const StepContext& /*step*/) override { graph_->launch(); }

   private:
    std::shared_ptr<HostGraph> graph_;
  };
};

}  // namespace strata::testing
