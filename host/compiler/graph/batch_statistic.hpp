#pragma once

#include "strata/graph.hpp"

namespace strata::host {

/// The first forward node that reduces the batch to a value which the model uses, such as a mean over all samples of a
/// micro-batch. Null if there is none: the samples of a batch then do not depend on each other.
[[nodiscard]] const Node* find_batch_statistic(const Graph& graph);

}  // namespace strata::host
