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

/// True if the chosen elements of `workers` pieces with their indices take fewer bytes than an exact sum of the piece.
/// A rank sends 2 · chosen numbers (workers - 1) times, instead of 2 · piece · (workers - 1) / workers.
[[nodiscard]] bool shrinks(const TopK& method, std::int64_t piece, int workers);

void emit_reduction(const TopK& method, strata::ReductionContext& context);

void define_reduction(const TopK& method, strata::DefinedGradient& gradient);

}  // namespace compress
