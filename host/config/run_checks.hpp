#pragma once

#include "config/run_configuration.hpp"

namespace strata::host {

/// Checks conditions between several keys, and those that a key's own type and range do not say. \throws
/// ConfigurationError with file and line.
void check_configuration(const RunConfiguration& configuration);

/// Checks that warm-up and decay fit into the run. A run whose length is an argument of --set is not checked, so
/// `--set run.steps=2` tries any configuration. \throws ConfigurationError with file and line.
void check_schedule_lengths(const RunConfiguration& configuration);

}  // namespace strata::host
