#pragma once

#include <string>
#include <vector>

#include "compiler/stack.hpp"
#include "strata/dataset.hpp"

namespace strata::host {

/// Sizes of dimensions, and the name in messages of the plugin that fixes them.
struct FixedSizes {
  std::string by;
  const DimSizes& sizes;
};

/// Joins the sizes that model and data fix. A dimension in the shape of an input must have one size. A dimension that
/// values only index may be larger in the model. A dimension may stay without a size: perhaps no model reads the input.
/// \throws ConfigurationError if sizes do not agree.
[[nodiscard]] DimSizes join_sizes(const FixedSizes& model, const FixedSizes& data,
                                  const std::vector<DatasetInput>& inputs);

/// The dimensions that values of inputs index and no input has, such as "vocab".
[[nodiscard]] std::vector<Dim> indexed_dims(const std::vector<DatasetInput>& inputs);

/// Adds small sizes for the dimensions of `inputs` that have none, which the rules of `stack` divide.
void add_small_sizes(DimSizes& sizes, const std::vector<DatasetInput>& inputs, const Stack& stack);

/// Required divisor of each dimension, so that all rules of the stack apply to it.
[[nodiscard]] std::map<Dim, std::int64_t> required_multiples(const Stack& stack);

}  // namespace strata::host
