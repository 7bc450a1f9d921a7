#pragma once

#include <memory>
#include <vector>

#include "data/data_source.hpp"
#include "setup/run_setup.hpp"
#include "strata/dataset.hpp"

namespace strata::host {

/// Data of a run without files: random values for every input that the configured dataset declares.
[[nodiscard]] DataSource random_data(const RunSetup& setup);

}  // namespace strata::host
