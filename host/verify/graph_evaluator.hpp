#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// Copies numbers to (upload) or from (download) a device's memory, as elements of `dtype`.
void upload(Device& device, void* memory, DType dtype, const std::vector<double>& values);
[[nodiscard]] std::vector<double> download(Device& device, const void* memory, DType dtype, std::int64_t elements);

/// Runs a logical graph node by node on one device. Every value has its own buffer; there is no mesh and no plan. It
/// defines the meaning of a graph, with which tests compare.
class GraphEvaluator {
 public:
  /// The graph must be decomposed. Graph and device outlive the evaluator.
  GraphEvaluator(const Graph& graph, const OpRegistry& registry, Device& device, std::uint64_t seed = 0);

  /// Sets a parameter or an input by name.
  void set(const std::string& leaf, const std::vector<double>& values);
  [[nodiscard]] std::vector<double> get(Value value) const;
  void run(const StepContext& context = {});

  /// Sums over all sinks of one kind.
  [[nodiscard]] double loss() const { return scalar_sink(Sink::Kind::loss); }
  [[nodiscard]] double count() const { return scalar_sink(Sink::Kind::count); }
  /// The sum of all contributions to the parameter's gradient. Empty if there is none.
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

/// The OpInstance of `node` on a single rank, where every iteration dimension is whole.
[[nodiscard]] OpInstance whole_instance(const Graph& graph, const OpRegistry& registry, const Node& node,
                                        std::uint64_t seed);

/// A graph with a single node. Its operands are leaves, and its results are outputs.
struct OpGraph {
  Graph graph;
  /// Name of the leaf of each operand.
  std::vector<std::string> operands;
  /// Name of the output of each result.
  std::vector<std::string> results;
  /// Name of the leaf with each result's gradient. Empty for a result that has none.
  std::vector<std::string> cotangents;
  /// Index of the result that is a loss; -1 if there is none.
  int loss = -1;
  /// Operands that need a gradient.
  std::set<int> differentiated;

  /// Name of the outputs whose sum is the gradient of `operand`.
  [[nodiscard]] std::string gradient(int operand) const { return "gradient of " + operands.at(operand_index(operand)); }

 private:
  [[nodiscard]] static std::size_t operand_index(int operand) { return static_cast<std::size_t>(operand); }
};

/// The graph of `node` alone. `trained`: trained_nodes(graph). Every result that another forward node or a sink of
/// `graph` reads has a gradient.
[[nodiscard]] OpGraph isolate(const Graph& graph, const Node& node, const std::set<int>& trained);

/// Adds the nodes of the op's gradient rule. \throws VerificationError if the op has no gradient, or if the rule emits
/// an invalid graph.
void add_gradients(OpGraph& alone, const OpRegistry& registry);

}  // namespace strata::host
