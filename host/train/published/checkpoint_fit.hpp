#pragma once

#include "strata/graph.hpp"
#include "strata/tensor.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace strata::host {

/// True if a checkpoint's tensor holds the values of a parameter of this shape: once, or once for each of several
/// replicas, which train apart.
[[nodiscard]] bool fits_parameter(const Shape& stored, const Shape& parameter);

/// \throws ConfigurationError that lists all differences if the checkpoint's parameters are not those of `graph`, a
/// model's graph as its strategies have rewritten it. Then the model would leave a part of the checkpoint out, for
/// example because it has fewer layers.
void require_parameters_of(const CheckpointReader& checkpoint, const Graph& graph);

}  // namespace strata::host
