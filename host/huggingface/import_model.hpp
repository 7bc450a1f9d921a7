#pragma once

#include <filesystem>
#include <memory>

#include "huggingface/hugging_face_checkpoint.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// Sizes of a model that was imported or exported.
struct ModelSummary {
  std::size_t tensors = 0;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  /// Files with tensors.
  std::size_t files = 1;
};

/// Writes a model of Hugging Face, with its adapters if it has some, as a checkpoint into the new folder `out`, through
/// a buffer of a few MiB. \throws ConfigurationError if the folder exists.
ModelSummary import_model(const CheckpointReader& model, const std::filesystem::path& out);

/// Reads a model of Hugging Face with the low-rank adapters that a folder of PEFT has for it. The result is a
/// checkpoint of step 0 whose configuration has the strategies that add such adapters. `base` outlives it. \throws
/// ConfigurationError or RuntimeError that names what Strata cannot read, or lists the tensors that do not fit.
[[nodiscard]] std::unique_ptr<const CheckpointReader> read_adapters(const HuggingFaceCheckpoint& base,
                                                                    const std::filesystem::path& folder,
                                                                    PluginRegistry& registry);

}  // namespace strata::host
