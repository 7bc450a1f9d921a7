#pragma once

#include <filesystem>
#include <vector>

#include "strata/testing/check_plugin.hpp"

namespace strata::testing {

/// The folders of plugins around a checked one: those of the settings, of STRATA_PLUGIN_PATH, and of the Strata that
/// this library belongs to.
[[nodiscard]] std::vector<std::filesystem::path> search_places(const PluginSettings& settings);

}  // namespace strata::testing
