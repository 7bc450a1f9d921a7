#pragma once

#include "llama.hpp"
#include "strata/options.hpp"

namespace llama {

/// The options of the plugin.
[[nodiscard]] const strata::OptionSchema& option_schema();

/// Settings of the size that the options name, with the options that override it. \throws strata::OptionError if they
/// contradict each other.
[[nodiscard]] Settings settings_from(const strata::Options& options);

}  // namespace llama
