#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata {
namespace {

/// Limit of a tensor's elements, so that byte counts, even of all its copies in a step, fit into 64 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

/// Walks a graph once in order, with one function per invariant.
class Verifier {
 public:
  Verifier(const Graph& graph, const OpRegistry& registry, const std::string& after)
      : graph_(graph), registry_(registry), after_(after) {
    for (const Parameter& parameter : graph.parameters) parameters_.emplace(parameter.name, &parameter);
  }

  void run() {
    for (const Node& node : graph_.nodes()) {
      operands_are_defined(node);
      dims_have_sizes(node);
      if (node.is_leaf()) {
        parameter_is_listed(node);
      } else {
        types_are_inferred(node);
        iteration_fits(node);
        if (graph_.mode != GraphMode::training) samples_stay_apart(node);
      }
      placement_fits(node);
      defined_.insert(node.id);
    }
    forward_names_are_unique();
    sinks_exist();
    parameters_exist();
    weight_nodes_feed_sinks_only();
  }

 private:
  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    throw VerificationError("after " + after_ + ": node %" + std::to_string(node.id) + " " + node.op + " '" +
                            node.name + "': " + what);
  }
  [[noreturn]] void fail(const std::string& what) const { throw VerificationError("after " + after_ + ": " + what); }

  void operands_are_defined(const Node& node) const {
    for (const Value& operand : node.operands) {
      if (!defined_.contains(operand.node))
        fail(node, "reads %" + std::to_string(operand.node) + " before it is defined");
      static_cast<void>(graph_.type(operand));
    }
  }

  void dims_have_sizes(const Node& node) const {
    for (const TensorType& type : node.results) {
      std::set<Dim> seen;
      for (const Dim& dim : type.dims) {
        const auto size = graph_.sizes.find(dim);
        if (size == graph_.sizes.end() || size->second < 1) fail(node, "dimension '" + dim + "' has no size");
        if (!seen.insert(dim).second) fail(node, "dimension '" + dim + "' stands twice in " + to_string(type));
      }
      elements_can_be_counted(node, type);
    }
  }

  void elements_can_be_counted(const Node& node, const TensorType& type) const {
    std::int64_t left = kMostElements;
    for (const Dim& dim : type.dims) left /= graph_.sizes.at(dim);
    if (left == 0) {
      fail(node, to_string(type) + " has more than 2^56 elements; its dimensions are too large");
    }
  }

  void parameter_is_listed(const Node& node) const {
    if (node.is_parameter() && !parameters_.contains(node.name)) {
      fail(node, "is read, and is no longer among the parameters of the graph");
    }
  }

  void iteration_fits(const Node& node) const {
    const IterationSpace space = registry_.get(node.op).iteration(graph_, node);
    std::vector<TensorType> operands;
    for (const Value& operand : node.operands) operands.push_back(graph_.type(operand));
    DimSizes sizes;
    iteration_names_dims(node, "operand", space.operands, operands, sizes);
    iteration_names_dims(node, "result", space.results, node.results, sizes);
  }

  /// Checks that every dimension of every tensor has an iteration dimension, and that each iteration dimension has one
  /// size.
  void iteration_names_dims(const Node& node, const std::string& what, const std::vector<Dims>& names,
                            const std::vector<TensorType>& types, DimSizes& sizes) const {
    if (names.size() != types.size()) {
      fail(node, "iteration() names the dimensions of " + std::to_string(names.size()) + " " + what +
                     "s; the node has " + std::to_string(types.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string label = what + " " + std::to_string(i);
      if (names[i].size() != types[i].dims.size()) {
        fail(node, "iteration() names " + std::to_string(names[i].size()) + " dimensions of " + label + ", which is " +
                       to_string(types[i]));
      }
      for (std::size_t at = 0; at < names[i].size(); ++at) {
        const std::int64_t size = graph_.sizes.at(types[i].dims[at]);
        const auto [known, added] = sizes.try_emplace(names[i][at], size);
        if (!added && known->second != size) {
          fail(node, "iteration() calls dimension '" + types[i].dims[at] + "' of " + label + ", of size " +
                         std::to_string(size) + ", '" + names[i][at] + "', which is of size " +
                         std::to_string(known->second) + " elsewhere");
        }
      }
    }
  }

  void types_are_inferred(const Node& node) const {
    const std::vector<TensorType> expected = registry_.get(node.op).infer(graph_, node);
    if (expected.size() != node.results.size()) {
      fail(node,
           "has " + std::to_string(node.results.size()) + " results, the op gives " + std::to_string(expected.size()));
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] != node.results[i]) {
        fail(node, "result " + std::to_string(i) + " is " + to_string(node.results[i]) + ", the op gives " +
                       to_string(expected[i]));
      }
    }
  }

  /// Checks that no result for single samples depends on a value that is of all samples, as it does in training if a
  /// batch norm normalises with the statistics of the batch.
  void samples_stay_apart(const Node& node) {
    const auto has_batch = [&](const Value& value) { return contains(graph_.type(value).dims, "batch"); };
    const auto joint =
        std::ranges::find_if(node.operands, [&](const Value& each) { return of_all_samples_.contains(each); });
    const bool reads_joint = joint != node.operands.end();
    const bool reads_samples = std::ranges::any_of(node.operands, has_batch);
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i) {
      const Value result{node.id, i};
      if (!has_batch(result)) {
        if (reads_joint || reads_samples) of_all_samples_.insert(result);
      } else if (reads_joint) {
        fail(node, "reads '" + graph_.node(joint->node).name +
                       "', which depends on all samples of a batch, so the evaluation of a sample would depend on its "
                       "batch; accepted in evaluation: what training keeps, such as GraphBuilder::running_average()");
      }
    }
  }

  void placement_fits(const Node& node) const {
    if (node.is_leaf() != (node.block < 0)) fail(node, "leaves have no block, other nodes have one");
    if (node.is_leaf() && (!node.operands.empty() || node.results.size() != 1))
      fail(node, "a leaf has one result and no operand");
  }

  void forward_names_are_unique() const {
    std::set<std::string> names;
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::forward && !names.insert(node.name).second) {
        fail(node, "another has this name; inputs, parameters and nodes of a model share their names");
      }
    }
  }

  void sinks_exist() const {
    int losses = 0;
    std::set<std::string> metrics;
    for (const Sink& sink : graph_.sinks) {
      if (!defined_.contains(sink.value.node))
        fail("a sink reads %" + std::to_string(sink.value.node) + ", which is not there");
      const TensorType& type = graph_.type(sink.value);
      if (sink.kind == Sink::Kind::loss || sink.kind == Sink::Kind::count) {
        if (!type.dims.empty()) fail("loss and count are scalars, found " + to_string(type));
        ++losses;
      }
      if (sink.kind == Sink::Kind::metric) {
        const std::string name = "metric '" + sink.name + "'";
        if (type.dims.size() > 1 || type.dtype != DType::f64)
          fail(name + " is [] or [n] f64, found " + to_string(type));
        if (!metrics.insert(sink.name).second) fail("there are two of the name " + name);
      }
      if (sink.kind != Sink::Kind::parameter_gradient) continue;
      const auto found = parameters_.find(sink.name);
      if (found == parameters_.end()) fail("a gradient names the parameter '" + sink.name + "', which is not there");
      const Parameter* parameter = found->second;
      if (graph_.type(parameter->value).dims != type.dims) {
        fail("the gradient of '" + sink.name + "' is " + to_string(type) + ", the parameter " +
             to_string(graph_.type(parameter->value)));
      }
    }
    if (graph_.sinks.empty())
      fail(
          "nothing leaves the graph: the model adds no loss, as GraphBuilder::cross_entropy_loss() and add_loss() do, "
          "and no output");
  }

  void parameters_exist() const {
    for (const Parameter& parameter : graph_.parameters) {
      if (!defined_.contains(parameter.value.node)) fail("parameter '" + parameter.name + "' has no node");
      const Node& node = graph_.node(parameter.value.node);
      if (!node.is_parameter() || node.name != parameter.name) fail(node, "is not parameter '" + parameter.name + "'");
      name_is_its_own(parameter);
      has_a_start(parameter);
    }
  }

  /// A checkpoint keeps parameters and the optimizer's states by name.
  void name_is_its_own(const Parameter& parameter) const {
    if (parameter.name.empty()) fail("a parameter has no name");
    if (parameter.name.starts_with("optimizer/")) {
      fail("parameter '" + parameter.name +
           "' has a name that begins with 'optimizer/'; in checkpoints these are the optimizer's states");
    }
  }

  void has_a_start(const Parameter& parameter) const {
    const Initialization& start = parameter.initialization;
    if (start.kind == Initialization::Kind::custom) {
      if (start.initializer == nullptr) {
        fail("the initializer of parameter '" + parameter.name + "' is missing (a null pointer)");
      }
    } else if (!std::isfinite(start.value)) {
      const bool constant = start.kind == Initialization::Kind::constant;
      fail("parameter '" + parameter.name + "' starts " + (constant ? "at " : "with a standard deviation of ") +
           std::to_string(start.value) + "; accepted: a finite number");
    }
  }

  void weight_nodes_feed_sinks_only() const {
    for (const Node& node : graph_.nodes()) {
      for (const Value& operand : node.operands) {
        if (graph_.node(operand.node).phase == Phase::weight) {
          fail(node, "reads %" + std::to_string(operand.node) + ", a node that produces parameter gradients only");
        }
      }
    }
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const std::string& after_;
  std::map<std::string, const Parameter*> parameters_;  // by name
  std::set<int> defined_;
  std::set<Value> of_all_samples_;
};

}  // namespace

void verify(const Graph& graph, const OpRegistry& registry, const std::string& after) {
  Verifier(graph, registry, after).run();
}

}  // namespace strata
