#pragma once

#include <string>

#include "strata/graph.hpp"
#include "strata/options.hpp"

/// \file
/// The head of models that classify whole samples, such as images.

namespace strata::models {

/// The option `label_smoothing`.
[[nodiscard]] OptionSpecification label_smoothing_option();

/// A linear layer from features [batch `width`] to classes, the loss of the input "labels", and the metric "accuracy":
/// the share of samples whose label has the largest logit.
void classify(GraphBuilder& builder, Value features, const std::string& name, const Dim& width,
              double label_smoothing = 0);

}  // namespace strata::models
