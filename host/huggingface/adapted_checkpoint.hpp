#pragma once

#include <filesystem>
#include <memory>

#include "huggingface/checkpoint.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// Reads a Hugging Face model with the low-rank adapters that a folder of PEFT has for it. The result is a checkpoint
/// of step 0 whose configuration has the strategies that add such adapters. `base` outlives it. \throws
/// ConfigurationError or RuntimeError that names what Strata cannot read, or lists the tensors that do not fit.
[[nodiscard]] std::unique_ptr<const CheckpointReader> read_adapters(const HuggingFaceCheckpoint& base,
                                                                    const std::filesystem::path& folder,
                                                                    PluginRegistry& registry);

}  // namespace strata::host
