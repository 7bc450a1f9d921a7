#pragma once

#include <string>
#include <vector>

#include "gpt2.hpp"
#include "strata/options.hpp"

namespace gpt2 {

/// The options of the plugin.
[[nodiscard]] const strata::OptionSchema& option_schema();

/// Resolves a size's name and the fields that override it. \throws strata::ConfigurationError for heads that do not
/// divide embed.
[[nodiscard]] Settings settings_from(const strata::Options& options);

}  // namespace gpt2
