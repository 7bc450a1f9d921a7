#pragma once

#include <cstdint>
#include <string>

namespace strata::testing {

/// The configuration with this number: a model whose graph is drawn (matrix/graphs), under a random stack of 1 to 8
/// ranks. Two of three have pipeline stages.
[[nodiscard]] std::string drawn_run(std::uint64_t number);

/// The folder of the plugins that drawn runs need besides those of Strata.
[[nodiscard]] std::string drawn_plugin_folder();

}  // namespace strata::testing
