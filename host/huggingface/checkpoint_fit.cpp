#include "huggingface/checkpoint_fit.hpp"

#include <algorithm>

#include "huggingface/model_parameters.hpp"
#include "strata/error.hpp"

namespace strata::host {

namespace {

bool fits(const Shape& stored, const Shape& parameter) {
  return stored == parameter ||
         (stored.size() == parameter.size() + 1 && std::equal(parameter.begin(), parameter.end(), stored.begin() + 1));
}

}  // namespace

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
