#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace strata::host {

/// \file
/// Names inside a checkpoints folder.

inline constexpr const char* kManifestName = "manifest.json";
/// A file with the name of the last checkpoint.
inline constexpr const char* kLatestName = "latest";
/// Occurs in the names of what is not finished, and in no other.
inline constexpr std::string_view kTemporaryMark = ".tmp-";

/// "step-00000100".
[[nodiscard]] std::string checkpoint_name(std::uint64_t step);
/// The inverse, for a path's last component; none for any other name.
[[nodiscard]] std::optional<std::uint64_t> step_of_checkpoint(const std::filesystem::path& directory);

}  // namespace strata::host
