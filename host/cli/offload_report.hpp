#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "train/run/training_programs.hpp"

namespace strata::host {

/// What the fullest rank has outside of its device: ", 12.0 MiB of host memory, 3.0 GiB in a file"; empty where that is
/// nothing.
[[nodiscard]] std::string describe_offload(const TrainingPrograms& programs);

/// What ranks have outside of their devices, and what a step moves; nothing where nothing is offloaded.
void print_offload(std::ostream& out, const TrainingPrograms& programs);

/// The same: by rank "host_bytes" and "file_bytes", by class of ranks the transfers of a step.
[[nodiscard]] nlohmann::ordered_json offload_json(const TrainingPrograms& programs);

}  // namespace strata::host
