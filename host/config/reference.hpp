#pragma once

#include <string>

#include "strata/options.hpp"

namespace strata::host {

/// The reference of all sections and keys as plain text.
std::string reference_text();

/// The reference as Markdown: the page docs/configuration.md.
std::string reference_markdown();

/// The options of a schema as plain text, one entry per option: name, type, default, documentation.
std::string options_text(const OptionSchema& schema, const std::string& indent = "  ");

}  // namespace strata::host
