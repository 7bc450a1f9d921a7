#pragma once

/// \file
/// Marks what libstrata and plugins export; everything else stays hidden.
#define STRATA_API __attribute__((visibility("default")))
