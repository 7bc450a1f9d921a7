#pragma once

#include "compiler/placement/stages.hpp"
#include "strata/graph.hpp"

namespace strata::host {

/// An evaluation pass has the values and the stages of the training step beside it, and no others. `stages`: those of
/// the training step. \throws ConfigurationError if the evaluation graph has a parameter or a block that the training
/// graph lacks, or reads a parameter on a stage that does not hold it.
void require_shared_parameters(const Graph& evaluation, const Graph& training, const Stages& stages);

}  // namespace strata::host
