#pragma once

#include <string>

#include "strata/options.hpp"

namespace strata::host {

/// All sections and keys of the configuration, for a terminal.
std::string reference_text();

/// The same as the page docs/configuration.md.
std::string reference_markdown();

/// One entry an option for a terminal: name, type, default, sentence.
std::string options_text(const OptionSchema& schema, const std::string& indent = "  ");

}  // namespace strata::host
