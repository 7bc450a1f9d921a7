#include <algorithm>
#include <string>
#include <vector>

#include "compiler/graph/build_graph.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {
namespace {

class Contract {
 public:
  /// `graph`: as the model has built it for `request`.
  Contract(const RunSetup& setup, const Graph& graph, const CompileRequest& request)
      : origin_(setup.plugins.model.origin),
        options_(setup.plugins.model.schema),
        dataset_(setup.plugins.dataset.origin.label),
        graph_(graph),
        sizes_(request.sizes),
        inputs_(setup.inputs) {
    for (const DatasetInput& input : setup.inputs) {
      given_.push_back({input.name, graph_type(input, request.float_type), input.indexes});
    }
  }

  void require_inputs() const {
    for (const Node& node : graph_.nodes()) {
      if (node.is_input()) require_input(node);
    }
  }

  /// Checks that `generation` names inputs and an output of these types.
  void require_generation(const Generation& generation) const {
    const Dims places{"batch", generation.sequence};
    // Without such an input, the data is no text, and there is nothing to generate from.
    const auto input = find_input(inputs_, generation.input, places.size());
    if (!input) return;
    const Dims scores{"batch", generation.sequence, inputs_[*input].indexes};
    const auto sink = std::ranges::find_if(graph_.sinks, [&](const Sink& each) {
      return each.kind == Sink::Kind::output && each.name == generation.output;
    });
    if (sink == graph_.sinks.end()) refuse("it has no output '" + generation.output + "', which generation reads");
    const TensorType& found = graph_.type(sink->value);
    if (found.dims != scores || !is_floating_point(found.dtype)) {
      refuse("its output '" + generation.output + "' is " + to_string(found) + "; generation reads [" + join(scores) +
             "]");
    }
    const TensorType tokens{places, DType::i32};
    for (const Node& node : graph_.nodes()) {
      if (!node.is_input() || node.name != generation.input || node.results.front() == tokens) continue;
      refuse("it reads the input '" + node.name + "' as " + to_string(node.results.front()) + "; generation gives " +
             to_string(tokens));
    }
  }

 private:
  struct Given {
    std::string name;
    TensorType type;
    Dim indexes;
  };

  void require_input(const Node& node) const {
    const TensorType& wanted = node.results.front();
    std::vector<std::string> names;
    std::vector<std::string> types;
    for (const Given& each : given_) {
      if (each.name == node.name && each.type == wanted) return require_sizes(each);
      if (each.name == node.name) types.push_back(to_string(each.type));
      if (!contains(names, each.name)) names.push_back(each.name);
    }
    const std::string reads = "it reads the input '" + node.name + "'";
    if (!types.empty()) refuse(reads + " as " + to_string(wanted) + "; the data has " + join(types, ", "));
    std::ranges::sort(names);
    const std::string near = nearest(node.name, names);
    refuse(reads + (near.empty() ? "" : "; did you mean '" + near + "'?") + "; the data has: " + join(names, ", "));
  }

  /// The data has to know them before the model is built, so the model cannot define them itself.
  void require_sizes(const Given& read) const {
    Dims dims = read.type.dims;
    if (!read.indexes.empty()) dims.push_back(read.indexes);
    for (const Dim& dim : dims) {
      if (dim == "batch" || sizes_.contains(dim)) continue;
      throw ConfigurationError("dimension '" + dim + "' has no size: " + dataset_ +
                               " does not fix it; accepted: " + what_fixes(dim));
    }
  }

  /// By convention, an option that fixes a dimension has its name.
  [[nodiscard]] std::string what_fixes(const Dim& dim) const {
    return options_.find(dim) != nullptr ? "a value of model." + dim
                                         : "a model whose options fix it, which those of " + origin_.label + " do not";
  }

  [[noreturn]] void refuse(const std::string& what) const { throw PluginError(origin_, "build", "", what); }

  const PluginOrigin& origin_;
  const OptionSchema& options_;
  std::string dataset_;
  const Graph& graph_;
  const DimSizes& sizes_;
  const std::vector<DatasetInput>& inputs_;
  std::vector<Given> given_;
};

}  // namespace

void RunSetup::require_contract(const CompileRequest& request) const {
  const PluginOrigin& origin = plugins.model.origin;
  const Graph graph = build_model_graph(request, GraphMode::training, 1);
  const Contract contract(*this, graph, request);
  // Generation gives the inputs itself. An imported model has no data that fits it.
  if (request.outputs.empty()) contract.require_inputs();
  const auto generation = call_plugin(origin, "generation", [&] { return request.model->generation(); });
  if (generation) contract.require_generation(*generation);
}

}  // namespace strata::host
