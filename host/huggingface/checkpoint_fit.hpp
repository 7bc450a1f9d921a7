#pragma once

#include <map>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "huggingface/problem_list.hpp"
#include "strata/graph.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// Lists the parameters of `shapes` whose tensors in a checkpoint are missing or have another shape. A tensor may hold
/// the values once, or once for each of several replicas, which train apart. Only parameters of `required` count as
/// missing. `owner`: the model that has the shapes, for messages.
[[nodiscard]] ProblemList misfits(const CheckpointReader& checkpoint, const std::map<std::string, Shape>& shapes,
                                  const std::map<std::string, Shape>& required, const std::string& owner);

/// \throws ConfigurationError that lists all differences if the checkpoint's parameters are not those of `graph`, a
/// model's graph as its strategies have rewritten it. Then the model would leave a part of the checkpoint out, for
/// example because it has fewer layers.
void require_parameters_of(const CheckpointReader& checkpoint, const Graph& graph);

}  // namespace strata::host
