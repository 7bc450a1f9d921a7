#include "compiler/graph/build_graph.hpp"

#include <cmath>
#include <utility>

namespace strata::host {
namespace {

/// Keeps the named outputs, or if there are none the losses and their count.
void keep_sinks(Graph& graph, const std::vector<std::string>& outputs) {
  std::vector<Sink> kept;
  for (const Sink& sink : graph.sinks) {
    const bool named = sink.kind == Sink::Kind::output && contains(outputs, sink.name);
    if (outputs.empty() ? sink.kind != Sink::Kind::output : named) kept.push_back(sink);
  }
  graph.sinks = std::move(kept);
  graph.remove_dead_nodes();
}

/// Freezes parameters on which no loss depends. They have no gradient, so no optimizer may refuse or change them.
void freeze_unread(Graph& graph) {
  const std::set<Value> read = read_values(graph);
  for (Parameter& parameter : graph.parameters) {
    const bool is_trained = parameter.role == ParameterRole::trained;
    if (is_trained && !read.contains(parameter.value)) parameter.role = ParameterRole::frozen;
  }
}

/// All parts of a graph that a rewrite may change. Comparing them before and after shows whether a rewrite did.
struct GraphState {
  /// Nodes, types, sizes and sinks.
  std::string text;
  std::vector<Parameter> parameters;
  std::optional<LossScaling> loss_scaling;

  explicit GraphState(const Graph& graph)
      : text(to_string(graph)), parameters(graph.parameters), loss_scaling(graph.loss_scaling) {}
  bool operator==(const GraphState&) const = default;
};

/// Checks that scale factors are finite and above 0, because the update divides by them.
void require_loss_scaling(const Graph& graph, const NamedStrategy& strategy) {
  if (!graph.loss_scaling) return;
  const LossScaling& scaling = *graph.loss_scaling;
  const auto require = [&](const char* what, double value, bool holds, const char* accepted) {
    if (std::isfinite(value) && holds) return;
    throw strategy.error(std::string("scales the loss with ") + what + " = " + std::to_string(value) +
                         "; accepted: " + accepted);
  };
  require("initial", scaling.initial, scaling.initial > 0, "a finite number above 0");
  require("growth", scaling.growth, scaling.growth >= 1, "a finite number of at least 1");
  require("backoff", scaling.backoff, scaling.backoff > 0 && scaling.backoff <= 1, "a number above 0, at most 1");
  require("interval", scaling.interval, scaling.interval > 0, "an integer of at least 1");
}

class GraphBuild {
 public:
  GraphBuild(const CompileRequest& request, std::int64_t samples)
      : request_(request), registry_(*request.registry), samples_(samples) {}

  BuiltGraph forward() {
    built_.graph = build_model_graph(request_, request_.mode, samples_);
    Graph& graph = built_.graph;
    keep_sinks(graph, request_.outputs);
    check("building the model");
    if (request_.continuation) {
      continue_sequence(graph, registry_, *request_.continuation);
      check("continuing the sequence");
    }
    freeze_groups(graph, request_.optimizer);
    rewrite("rewrite_forward", "the forward rewrite of ",
            [&](const Strategy& strategy) { strategy.rewrite_forward(graph, registry_); });
    // Strategies may have added parameters of frozen groups.
    freeze_groups(graph, request_.optimizer);
    if (request_.outputs.empty()) freeze_unread(graph);
    return std::move(built_);
  }

  BuiltGraph run() {
    built_ = forward();
    Graph& graph = built_.graph;
    if (request_.is_training()) {
      differentiate(graph, registry_);
      check("differentiation");
      rewrite("rewrite", "the rewrite of ", [&](const Strategy& strategy) { strategy.rewrite(graph, registry_); });
    }
    decompose(graph, registry_);
    graph.remove_dead_nodes();
    check("decomposition");
    return std::move(built_);
  }

 private:
  void check(const std::string& after) const {
    if (!request_.is_trial) verify(built_.graph, registry_, after);
  }

  template <class Call>
  void rewrite(const char* hook, const std::string& phase, const Call& call) {
    if (request_.is_trial) {
      for (const NamedStrategy& each : request_.strategies) each.ask(hook, call);
      return;
    }
    GraphState before(built_.graph);
    for (const NamedStrategy& each : request_.strategies) {
      each.ask(hook, call);
      GraphState after(built_.graph);
      if (after == before) continue;
      check(phase + each.name);
      require_loss_scaling(built_.graph, each);
      built_.rewritten_by.push_back(each.name);
      before = std::move(after);
    }
  }

  const CompileRequest& request_;
  const OpRegistry& registry_;
  std::int64_t samples_;
  BuiltGraph built_;
};

}  // namespace

BuiltGraph build_graph(const CompileRequest& request, std::int64_t samples) {
  return GraphBuild(request, samples).run();
}

Graph build_model_graph(const CompileRequest& request, GraphMode mode, std::int64_t samples) {
  Graph graph;
  graph.sizes = request.sizes;
  graph.sizes["batch"] = samples;
  GraphBuilder builder(graph, *request.registry, mode, request.float_type);
  call_plugin(request.model_origin, "build", [&] { request.model->build(builder); });
  return graph;
}

std::set<Value> read_values(const Graph& graph) {
  std::set<Value> values;
  for (const Node& node : graph.nodes()) values.insert(node.operands.begin(), node.operands.end());
  return values;
}

void drop_unread_parameters(Graph& graph) {
  const std::set<Value> read = read_values(graph);
  std::erase_if(graph.parameters, [&](const Parameter& each) { return !read.contains(each.value); });
  graph.remove_dead_nodes();
}

Graph build_forward_graph(const CompileRequest& request, std::int64_t samples) {
  return GraphBuild(request, samples).forward().graph;
}

}  // namespace strata::host
