#pragma once

#include <filesystem>

#include "huggingface/checkpoint.hpp"

namespace strata::host {

/// Sizes of a model that was imported or exported.
struct ModelSummary {
  std::size_t tensors = 0;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  /// Files with tensors.
  std::size_t files = 1;
};

/// Writes a Hugging Face model, with its adapters if it has some, as a checkpoint into the new folder `out`, through a
/// buffer of a few MiB. \throws ConfigurationError if the folder exists.
ModelSummary import_model(const CheckpointReader& model, const std::filesystem::path& out);

}  // namespace strata::host
