#pragma once

#include <optional>
#include <string>
#include <utility>

#include "strata/options.hpp"

namespace datasets {

/// An option of a dataset, of any type. Without a default value it is required. Ranks may differ in paths of data,
/// whose content is compared.
inline strata::OptionSpecification data_option(std::string name, strata::OptionType type,
                                               std::optional<strata::OptionValue> otherwise, std::string documentation,
                                               strata::OptionRole role = strata::OptionRole::none) {
  using strata::OptionRole;
  return {.name = std::move(name),
          .type = type,
          .default_value = std::move(otherwise),
          .documentation = std::move(documentation),
          .may_differ = role == OptionRole::training_data || role == OptionRole::validation_data,
          .role = role};
}

/// The option `tokenizer` of datasets of tokens.
inline strata::OptionSpecification tokenizer_option() {
  return data_option("tokenizer", strata::OptionType::word, std::string(),
                     "The tokenizer that made the tokens: a tokenizer.json, a model of sentencepiece, or a folder with "
                     "one of them. Checkpoints carry it.",
                     strata::OptionRole::tokenizer);
}

}  // namespace datasets
