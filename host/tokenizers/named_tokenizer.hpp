#pragma once

#include <memory>

#include "checkpoint/checkpoint_manifest.hpp"

namespace strata::host {

struct RunSetup;

/// The files of the tokenizer that the dataset's option `tokenizer` names, for the run's checkpoints.
/// \return null if it names none. \throws ConfigurationError with file and line if there is no such tokenizer, or if it
/// has more numbers than the model's vocabulary.
[[nodiscard]] std::shared_ptr<const ModelFiles> named_tokenizer(const RunSetup& setup);

}  // namespace strata::host
