#pragma once

#include "strata/graph.hpp"
#include "strata/model.hpp"

namespace strata::host {

/// \file
/// Source values: the values that depend on the source of a text and not on the text, and that ops of the text read,
/// such as the keys and values of an encoder's output. Generation computes them once per source.

/// Makes the source values the outputs of the graph, by the names of their nodes, and removes all else.
void keep_source_values(Graph& graph, const Generation& generation);

/// Turns the source values into constants of the graph, with the names of their nodes. Their initial values are 0.
void take_source_values(Graph& graph, const Generation& generation);

}  // namespace strata::host
