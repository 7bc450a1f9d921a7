#pragma once

#include <string>
#include <vector>

#include "gpt2.hpp"
#include "strata/options.hpp"

namespace gpt2 {

/// The options of the plugin.
[[nodiscard]] const strata::OptionSchema& option_schema();

/// Settings of the size that the options name, with the options that override it. \throws strata::ConfigurationError if
/// the number of heads does not divide embed.
[[nodiscard]] Settings settings_from(const strata::Options& options);

}  // namespace gpt2
