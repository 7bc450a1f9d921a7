#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "strata/published.hpp"

namespace strata::host {

inline constexpr const char* kPublishedConfig = "config.json";

/// Parses the text of a config.json. \throws ConfigurationError, without a path, if it is no JSON object.
[[nodiscard]] PublishedFields parse_published_config(const std::string& text);

/// Reads the config.json of a folder. \throws ConfigurationError with the path.
[[nodiscard]] PublishedFields read_published_config(const std::filesystem::path& folder);

/// The text of a config.json.
[[nodiscard]] std::string to_json(const PublishedFields& fields);

/// The text of a config.json, without the fields `removed` and with the values of `set`. All other fields stay as they
/// are.
[[nodiscard]] std::string edit_json(const std::string& text, const std::vector<std::string>& removed,
                                    const PublishedFields& set);

}  // namespace strata::host
