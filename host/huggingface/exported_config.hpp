#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint_manifest.hpp"
#include "huggingface/hugging_face_model.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// The config.json that a checkpoint keeps from its import. Empty if it has none.
[[nodiscard]] std::optional<HuggingFaceFields> imported_config(const ModelFiles& files);

/// The text of the config.json of an exported model. `options`: all of the model's. `sizes`: those that the data fixed.
/// `files`: those that the checkpoint keeps from its import. `dtype`: the type of most tensors.
///
/// If the model began from a config.json, its fields stay, except for those in which the model now differs. Example: a
/// Mistral whose window was null stays a Mistral, though its plugin would call such a model a Llama.
[[nodiscard]] std::string exported_config(const HuggingFacePlugin& plugin, const Options& options,
                                          const DimSizes& sizes, const ModelFiles& files, DType dtype);

}  // namespace strata::host
