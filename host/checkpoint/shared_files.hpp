#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manifest.hpp"
#include "checkpoint/checkpoint_plan.hpp"

namespace strata::host {

/// The checksums of a rank's frozen pieces, by tensor, if the rank's file of frozen tensors in the checkpoint `base`
/// has exactly those of `plan`. Empty if it has others. Whether the values are the same, the caller knows.
[[nodiscard]] std::optional<std::map<std::string, std::string>> frozen_checksums(
    const Manifest& base, const std::vector<CheckpointTensor>& plan, int rank);

/// True if frozen_checksums() finds those of all ranks.
[[nodiscard]] bool has_frozen_files(const Manifest& base, const std::vector<CheckpointTensor>& plan);

}  // namespace strata::host
