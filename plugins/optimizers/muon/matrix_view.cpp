#include "matrix_view.hpp"

#include <algorithm>

namespace muon {

using namespace strata;

MatrixView view(const ParameterDescription& parameter, const std::vector<std::string>& split) {
  MatrixView view;
  for (const Dim& dim : parameter.dims) {
    if (std::find(split.begin(), split.end(), dim) != split.end()) {
      view.matrices.push_back(dim);
    } else if (find_dim(parameter.contracted, dim) >= 0) {
      view.inputs.push_back(dim);
    } else {
      view.outputs.push_back(dim);
    }
  }
  return view;
}

std::optional<std::string> fault(const ParameterDescription& parameter, const MatrixView& view) {
  if (parameter.contracted.empty()) return "no matrix product reads it";
  if (!view.inputs.empty() && !view.outputs.empty()) return std::nullopt;
  std::string found = "its dimensions [" + join(parameter.dims) + "] have no ";
  found += view.inputs.empty() ? "input" : "output";
  found += " side";
  if (!view.matrices.empty()) found += " besides [" + join(view.matrices) + "], by which it is split";
  return found;
}

}  // namespace muon
