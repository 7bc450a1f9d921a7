#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/op.hpp"

namespace strata::testing {

/// Copies numbers to and from a device's memory as elements of `dtype`.
void upload(Device& device, void* memory, DType dtype, const std::vector<double>& values);
std::vector<double> download(Device& device, const void* memory, DType dtype, std::int64_t elements);

/// Runs a logical graph node by node on one device: no mesh, no plan, every value in a buffer of its own. The plainest
/// meaning of a graph, for tests to compare with.
class GraphEvaluator {
 public:
  /// The graph has no short-hand ops left. Graph and device outlive the evaluator.
  GraphEvaluator(const Graph& graph, const OpRegistry& registry, Device& device, std::uint64_t seed = 0);

  /// Sets a parameter or an input by name.
  void set(const std::string& leaf, const std::vector<double>& values);
  [[nodiscard]] std::vector<double> get(Value value) const;
  void run(const StepContext& context = {});

  /// Sums over all sinks of a kind.
  [[nodiscard]] double loss() const { return scalar_sink(Sink::Kind::loss); }
  [[nodiscard]] double count() const { return scalar_sink(Sink::Kind::count); }
  /// The sum of all contributions; empty if there is none.
  [[nodiscard]] std::vector<double> parameter_gradient(const std::string& parameter) const;

 private:
  struct Step {
    const Node* node;
    std::unique_ptr<Kernel> kernel;
    std::shared_ptr<void> workspace;
  };

  [[nodiscard]] double scalar_sink(Sink::Kind kind) const;

  const Graph& graph_;
  Device& device_;
  std::map<Value, std::shared_ptr<void>> memory_;
  std::vector<Step> steps_;
};

/// An instance of `node` on one rank: every iteration dimension is whole.
OpInstance whole_instance(const Graph& graph, const OpRegistry& registry, const Node& node, std::uint64_t seed);

}  // namespace strata::testing
