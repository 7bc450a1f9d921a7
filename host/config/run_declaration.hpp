#pragma once

#include "config/sections.hpp"

namespace strata::host {

/// The keys of [run].
SectionDeclaration run_declaration();
/// The keys of [run.shrink].
SectionDeclaration shrink_declaration();

}  // namespace strata::host
