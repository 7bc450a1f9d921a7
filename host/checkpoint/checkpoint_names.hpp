#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace strata::host {

/// \file
/// Names within a checkpoints folder.

inline constexpr const char* kManifestName = "manifest.json";
/// Ends the names of the files with tensors.
inline constexpr const char* kTensorSuffix = ".safetensors";
/// Name of the file that contains the name of the newest checkpoint.
inline constexpr const char* kLatestName = "latest";

/// Name of the checkpoint of a step, such as "step-00000100".
[[nodiscard]] std::string checkpoint_name(std::uint64_t step);
/// The step of a checkpoint, from the last component of its path. Empty if that is not a checkpoint's name.
[[nodiscard]] std::optional<std::uint64_t> step_of_checkpoint(const std::filesystem::path& directory);

}  // namespace strata::host
