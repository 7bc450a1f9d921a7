#include "train/published/checkpoint_fit.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "strata/error.hpp"
#include "train/published/model_parameters.hpp"
#include "train/published/problem_list.hpp"

namespace strata::host {

bool fits_parameter(const Shape& stored, const Shape& parameter) {
  return stored == parameter ||
         (stored.size() == parameter.size() + 1 && std::equal(parameter.begin(), parameter.end(), stored.begin() + 1));
}

void require_parameters_of(const CheckpointReader& checkpoint, const Graph& graph) {
  ProblemList problems;
  const std::map<std::string, Shape> shapes = stored_shapes(graph);
  const auto& tensors = checkpoint.manifest().tensors;
  for (const auto& [name, shape] : shapes) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      problems.add("missing: '" + name + "' " + shape_text(shape));
    } else if (!fits_parameter(found->second.shape, shape)) {
      problems.add("wrong shape: '" + name + "' is " + shape_text(found->second.shape) + "; the model has " +
                   shape_text(shape));
    }
  }
  for (const auto& each : tensors) {
    const std::string& name = each.first;
    if (shapes.contains(name) || name.starts_with("optimizer/")) continue;
    problems.add("unexpected: '" + name + "'; is it of a strategy?");
  }
  if (problems.empty()) return;
  throw ConfigurationError("checkpoint '" + checkpoint.directory().string() +
                           "': its parameters are not those of the model:" + problems.text());
}

}  // namespace strata::host
