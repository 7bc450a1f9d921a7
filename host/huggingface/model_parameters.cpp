#include "huggingface/model_parameters.hpp"

#include <algorithm>

#include "strata/error.hpp"

namespace strata::host {
namespace {

CompileRequest model_request(const RunSetup& setup, const DimSizes& data) {
  DimSizes sizes = setup.model_sizes;
  sizes.insert(data.begin(), data.end());
  const DimSizes others = setup.sizes_without_data();
  sizes.insert(others.begin(), others.end());
  return setup.request(GraphMode::training, std::move(sizes));
}

bool fits(const Shape& stored, const Shape& parameter) {
  return stored == parameter ||
         (stored.size() == parameter.size() + 1 && std::equal(parameter.begin(), parameter.end(), stored.begin() + 1));
}

}  // namespace

std::map<std::string, Shape> model_parameters(const RunSetup& setup, const DimSizes& data) {
  CompileRequest request = model_request(setup, data);
  request.strategies.clear();
  return stored_shapes(forward_graph(request));
}

Graph model_graph(const RunSetup& setup, const DimSizes& data) { return forward_graph(model_request(setup, data)); }

std::map<std::string, Shape> stored_shapes(const Graph& graph) {
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role != ParameterRole::constant) shapes[parameter.name] = graph.shape(parameter.value);
  }
  return shapes;
}

ProblemList misfits(const CheckpointReader& checkpoint, const std::map<std::string, Shape>& shapes,
                    const std::map<std::string, Shape>& required, const std::string& owner) {
  ProblemList problems;
  const auto& stored = checkpoint.manifest().tensors;
  for (const auto& [name, shape] : shapes) {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      if (required.contains(name)) problems.add("missing: '" + name + "' " + shape_text(shape));
    } else if (!fits(found->second.shape, shape)) {
      problems.add("wrong shape: '" + name + "' is " + shape_text(found->second.shape) + "; " + owner + " has " +
                   shape_text(shape));
    }
  }
  return problems;
}

void require_parameters_of(const CheckpointReader& checkpoint, const Graph& graph) {
  const std::map<std::string, Shape> shapes = stored_shapes(graph);
  ProblemList problems = misfits(checkpoint, shapes, shapes, "the model");
  for (const auto& each : checkpoint.manifest().tensors) {
    const std::string& name = each.first;
    if (shapes.contains(name) || name.starts_with("optimizer/")) continue;
    problems.add("unexpected: '" + name + "'; is it of a strategy?");
  }
  if (problems.empty()) return;
  throw ConfigurationError("checkpoint '" + checkpoint.directory().string() +
                           "': its parameters are not those of the model:" + problems.text());
}

}  // namespace strata::host
