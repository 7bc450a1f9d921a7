#include <set>

#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata {
namespace {

/// Walks a graph once in order; one function per invariant.
class Verifier {
 public:
  Verifier(const Graph& graph, const OpRegistry& registry, const std::string& after)
      : graph_(graph), registry_(registry), after_(after) {}

  void run() {
    for (const Node& node : graph_.nodes()) {
      operands_are_defined(node);
      dims_have_sizes(node);
      if (!node.is_leaf()) types_are_inferred(node);
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

  void placement_fits(const Node& node) const {
    if (node.is_leaf() != (node.block < 0)) fail(node, "leaves have no block, other nodes have one");
    if (node.is_leaf() && (!node.operands.empty() || node.results.size() != 1))
      fail(node, "a leaf has one result and no operand");
  }

  void forward_names_are_unique() const {
    std::set<std::string> names;
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::forward && !names.insert(node.name).second) fail(node, "the name is taken");
    }
  }

  void sinks_exist() const {
    int losses = 0;
    for (const Sink& sink : graph_.sinks) {
      if (!defined_.contains(sink.value.node))
        fail("a sink reads %" + std::to_string(sink.value.node) + ", which is not there");
      const TensorType& type = graph_.type(sink.value);
      if (sink.kind == Sink::Kind::loss || sink.kind == Sink::Kind::count) {
        if (!type.dims.empty()) fail("loss and count are scalars, found " + to_string(type));
        ++losses;
      }
      if (sink.kind != Sink::Kind::parameter_gradient) continue;
      const Parameter* parameter = graph_.find_parameter(sink.name);
      if (parameter == nullptr) fail("a gradient names the parameter '" + sink.name + "', which is not there");
      if (graph_.type(parameter->value).dims != type.dims) {
        fail("the gradient of '" + sink.name + "' is " + to_string(type) + ", the parameter " +
             to_string(graph_.type(parameter->value)));
      }
    }
    if (graph_.sinks.empty()) fail("nothing leaves the graph: no loss and no output");
  }

  void parameters_exist() const {
    for (const Parameter& parameter : graph_.parameters) {
      if (!defined_.contains(parameter.value.node)) fail("parameter '" + parameter.name + "' has no node");
      const Node& node = graph_.node(parameter.value.node);
      if (node.op != "parameter" || node.name != parameter.name)
        fail(node, "is not parameter '" + parameter.name + "'");
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
  std::set<int> defined_;
};

}  // namespace

void verify(const Graph& graph, const OpRegistry& registry, const std::string& after) {
  Verifier(graph, registry, after).run();
}

}  // namespace strata
