#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/tensor_part.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// Shapes of the parameters that the model itself has and that checkpoints contain, by name. Parameters that
/// strategies add are not among them. `data`: sizes that the data fixed, where the model's options do not.
[[nodiscard]] std::map<std::string, Shape> model_parameters(const RunSetup& setup, const DimSizes& data = {});

/// The forward graph of the model, as the setup's strategies rewrite it.
[[nodiscard]] Graph model_graph(const RunSetup& setup, const DimSizes& data = {});

/// Shapes of the parameters of `graph` that checkpoints contain, by name.
[[nodiscard]] std::map<std::string, Shape> stored_shapes(const Graph& graph);

/// A shape as text: "[2 3]".
[[nodiscard]] std::string shape_text(const Shape& shape);

/// Calls `visit(local, global, length)` for every run of elements that is contiguous in the part and in the whole
/// tensor, in the order of the part. `local` counts from the part's first element.
void for_each_run(const TensorPart& part,
                  const std::function<void(std::int64_t local, std::int64_t global, std::int64_t length)>& visit);

}  // namespace strata::host
