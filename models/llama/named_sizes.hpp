#pragma once

#include <string>
#include <vector>

#include "llama.hpp"

namespace llama {

/// A Hugging Face model.
struct NamedSize {
  std::string name;
  Settings settings;
};

/// The published sizes that `size` accepts. Their context is that of the published training, which `context` shortens.
[[nodiscard]] const std::vector<NamedSize>& named_sizes();

}  // namespace llama
