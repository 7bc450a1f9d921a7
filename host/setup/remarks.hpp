#pragma once

#include <string>
#include <vector>

#include "setup/training_programs.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Settings that are valid but probably unintended: strategies without effect or that could not do something for an op,
/// and ops that run their reference kernel on a device that looks for fast kernels. One sentence each.
[[nodiscard]] std::vector<std::string> find_remarks(const TrainingPrograms& programs, const Device& device);

}  // namespace strata::host
