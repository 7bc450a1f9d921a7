#pragma once

#include <string>

#include "setup/run_setup.hpp"

namespace strata::host {

/// The result of verify_generation().
struct GenerationVerification {
  /// Largest relative difference of the scores of a next token.
  double difference = 0;
  /// Why nothing was compared. Empty if the scores were.
  std::string missing = {};
};

/// Compiles the programs of generation on one rank, for prompts, next tokens and whole contexts, in the type of
/// `setup`. Compares the scores of next tokens, from the keys and values of earlier ones, with those of whole contexts.
[[nodiscard]] GenerationVerification verify_generation(const RunSetup& setup);

}  // namespace strata::host
