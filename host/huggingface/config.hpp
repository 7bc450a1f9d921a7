#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "strata/huggingface.hpp"

namespace strata::host {

inline constexpr const char* kHuggingFaceConfig = "config.json";

/// Parses the text of a config.json. \throws ConfigurationError, without a path, if it is no JSON object.
[[nodiscard]] HuggingFaceFields parse_huggingface_config(const std::string& text);

/// Reads the config.json of a folder. \throws ConfigurationError with the path.
[[nodiscard]] HuggingFaceFields read_huggingface_config(const std::filesystem::path& folder);

/// The text of a config.json.
[[nodiscard]] std::string to_json(const HuggingFaceFields& fields);

/// The text of a config.json, without the fields `removed` and with the values of `set`. All other fields stay as they
/// are.
[[nodiscard]] std::string edit_json(const std::string& text, const std::vector<std::string>& removed,
                                    const HuggingFaceFields& set);

}  // namespace strata::host
