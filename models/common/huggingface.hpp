#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/error.hpp"
#include "strata/huggingface.hpp"

/// \file
/// Fields that the config.json of every model has.

namespace strata::models {

/// A size, which is at least 1. `otherwise`: the size if the file lacks the field. \throws OptionError with the field.
[[nodiscard]] inline std::int64_t checked_size(const HuggingFaceFields& config, const std::string& field,
                                               std::optional<std::int64_t> otherwise = {}) {
  const std::int64_t size = config.integer(field, otherwise);
  if (size < 1) throw OptionError(field, "found " + std::to_string(size) + "; accepted: at least 1");
  return size;
}

/// \throws OptionError if the weights of the Hugging Face model are quantized.
inline void require_plain_weights(const HuggingFaceFields& config) {
  if (!config.has_value("quantization_config")) return;
  throw OptionError("quantization_config", "found one; accepted: none, with weights in f32, bf16 or f16");
}

/// The size of `dim`, such as "vocab": `option`, or the size that the data fixed if the option is 0.
[[nodiscard]] inline std::int64_t size_of_dim(const Dim& dim, std::int64_t option, const DimSizes& sizes) {
  const auto of_data = sizes.find(dim);
  return option > 0 || of_data == sizes.end() ? option : of_data->second;
}

}  // namespace strata::models
