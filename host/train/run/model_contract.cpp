#include "train/run/model_contract.hpp"

#include <map>
#include <string>
#include <vector>

namespace strata::host {
namespace {

/// The inputs that token data provides.
const std::map<std::string, TensorType> kInputs = {{"tokens", {{"batch", "seq"}, DType::i32}},
                                                   {"targets", {{"batch", "seq"}, DType::i32}},
                                                   {"positions", {{"seq"}, DType::i32}}};

class Contract {
 public:
  Contract(const PluginOrigin& origin, const Graph& graph) : origin_(origin), graph_(graph) {}

  void require_context(std::int64_t context) const {
    const auto seq = graph_.sizes.find("seq");
    if (seq == graph_.sizes.end()) refuse("it defines no dimension 'seq', along which the data's tokens lie");
    if (seq->second == context) return;
    refuse("its dimension 'seq' has size " + std::to_string(seq->second) + ", its context is " +
           std::to_string(context) + " tokens; accepted: the same number");
  }

  void require_inputs() const {
    for (const Node& node : graph_.nodes()) {
      if (node.op != "input") continue;
      const TensorType& wanted = node.results.front();
      const auto given = kInputs.find(node.name);
      if (given == kInputs.end()) {
        std::vector<std::string> names;
        for (const auto& [name, type] : kInputs) names.push_back(name);
        const std::string near = nearest(node.name, names);
        refuse("it reads the input '" + node.name + "'" + (near.empty() ? "" : "; did you mean '" + near + "'?") +
               "; the data has: " + join(names, ", "));
      }
      if (wanted == given->second) continue;
      refuse("it reads the input '" + node.name + "' as " + to_string(wanted) + "; the data has " +
             to_string(given->second));
    }
  }

  void require_logits() const {
    for (const Sink& sink : graph_.sinks) {
      if (sink.kind != Sink::Kind::output || sink.name != "logits") continue;
      const TensorType& found = graph_.type(sink.value);
      if (found.dims == Dims{"batch", "seq", "vocab"} && is_floating_point(found.dtype)) continue;
      refuse("its output 'logits' is " + to_string(found) + "; generation reads [batch seq vocab]");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw PluginError(origin_, "build", "", what); }

  const PluginOrigin& origin_;
  const Graph& graph_;
};

}  // namespace

void require_model_contract(const RunSetup& setup, const CompileRequest& request) {
  const PluginOrigin& origin = setup.plugins.model.origin;
  Graph graph;
  graph.sizes["batch"] = 1;
  if (request.vocab) graph.sizes["vocab"] = *request.vocab;
  GraphBuilder builder(graph, *request.registry, GraphMode::training, request.float_type);
  call_plugin(origin, "build", [&] { request.model->build(builder); });
  const Contract contract(origin, graph);
  contract.require_context(setup.context);
  contract.require_inputs();
  contract.require_logits();
}

}  // namespace strata::host
