#pragma once

#include <vector>

#include "common/options.hpp"
#include "llama.hpp"

namespace llama {

using NamedSize = strata::models::NamedSize<Settings>;

/// The published sizes that `size` accepts. Their context is that of the published training, which `context` shortens.
[[nodiscard]] const std::vector<NamedSize>& named_sizes();

}  // namespace llama
