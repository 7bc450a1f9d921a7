#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/checkpoint.hpp"
#include "huggingface/import_model.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

struct ExportSettings {
  /// Type of all tensors. Empty: of each the type that it had in Hugging Face's files from which training began, or
  /// else that of the checkpoint.
  std::optional<DType> dtype = std::nullopt;
  RestoredWeights weights = RestoredWeights::trained;
  /// Largest size of a file with several tensors.
  std::uint64_t shard_bytes = 5'000'000'000;
};

/// Writes the model of a checkpoint as Hugging Face's files into the new folder `out`, through a buffer of a few MiB.
/// Adapters are merged into the parameters that they belong to, of which one at a time is in memory.
/// \throws ConfigurationError if the folder exists, or if no model of Hugging Face is like the checkpoint's. \throws
/// RuntimeError that lists all parameters that are missing or unexpected.
ModelSummary export_model(const CheckpointReader& checkpoint, PluginRegistry& registry,
                          const std::filesystem::path& out, const ExportSettings& settings);

/// Writes the adapters of a checkpoint alone, in PEFT's format, into the new folder `out`. \throws ConfigurationError
/// if the folder exists, if there are none, or if PEFT's format cannot hold them.
ModelSummary export_adapters(const CheckpointReader& checkpoint, PluginRegistry& registry,
                             const std::filesystem::path& out, RestoredWeights weights);

}  // namespace strata::host
