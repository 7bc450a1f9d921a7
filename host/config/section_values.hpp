#pragma once

#include "config/run_configuration.hpp"

namespace strata::host {

/// Between checked options by name and typed sections, in both directions; the only code that spells the names of the
/// host's own keys besides their declaration.
RunSection run_section(const Options& options);
DataSection data_section(const Options& options);
BatchSection batch_section(const Options& options);
OptimizerSection optimizer_section(const Options& options, const Options& schedule);

Options to_options(const RunSection& section);
Options to_options(const DataSection& section);
Options to_options(const BatchSection& section);
Options to_options(const OptimizerSection& section);
Options to_options(const ScheduleSection& section);

}  // namespace strata::host
