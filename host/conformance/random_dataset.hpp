#pragma once

#include <memory>
#include <vector>

#include "strata/dataset.hpp"
#include "train/data/data_source.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {

/// Data of a run without files: random values for every input that the configured dataset declares.
[[nodiscard]] DataSource random_data(const RunSetup& setup);

}  // namespace strata::host
