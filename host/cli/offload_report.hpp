#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "train/training_programs.hpp"

namespace strata::host {

/// Offloaded bytes of the rank with the most: ", 12.0 MiB of host memory, 3.0 GiB in a file". Empty if nothing is
/// offloaded.
[[nodiscard]] std::string describe_offload(const TrainingPrograms& programs);

/// Prints the offloaded bytes of ranks and the transfers of a step. Prints nothing if nothing is offloaded.
void print_offload(std::ostream& out, const TrainingPrograms& programs);

/// The same as JSON: "host_bytes" and "file_bytes" by rank, and a step's transfers by class of ranks.
[[nodiscard]] nlohmann::ordered_json offload_json(const TrainingPrograms& programs);

}  // namespace strata::host
