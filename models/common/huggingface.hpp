#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/huggingface.hpp"

namespace strata::models {

/// \file
/// Fields that the config.json of every model has.

/// A size, which is at least 1. `otherwise`: the size if the file lacks the field. \throws OptionError with the field.
[[nodiscard]] std::int64_t checked_size(const HuggingFaceFields& config, const std::string& field,
                                        std::optional<std::int64_t> otherwise = {});

/// \throws OptionError if the weights of the Hugging Face model are quantized.
void require_plain_weights(const HuggingFaceFields& config);

/// Rows of the vocabulary: the model's option `vocab`, or the size that the data fixed if the option is 0.
[[nodiscard]] std::int64_t vocabulary_rows(std::int64_t vocab, const DimSizes& sizes);

}  // namespace strata::models
