#pragma once

/// \file
/// STRATA_API marks the symbols that libstrata and plugins export. Builds hide all other symbols.
#define STRATA_API __attribute__((visibility("default")))
