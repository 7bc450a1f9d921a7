#pragma once

#include "strata/strategy.hpp"

namespace compress {

/// Exchange of the largest elements with error feedback (Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory",
/// NeurIPS 2018; Lin et al., "Deep Gradient Compression", ICLR 2018). Each rank chooses from its own piece of each
/// parameter, because a choice among all elements would need an exchange of its own.
struct TopK {
  /// Share of the elements of a piece that are exchanged.
  double density = 0.01;
};

/// True if the chosen elements with their indices are smaller than the parameter.
[[nodiscard]] bool shrinks(const TopK& method, const strata::ParameterDescription& parameter);

void emit_reduction(const TopK& method, strata::ReductionContext& context);

void define_reduction(const TopK& method, strata::DefinedGradient& gradient);

}  // namespace compress
