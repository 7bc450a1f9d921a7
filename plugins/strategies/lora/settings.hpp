#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/internal/weight_blocks.hpp"
#include "strata/options.hpp"

namespace lora {

/// Initial values of A. B starts at zero, so training starts from the values of the base model.
enum class Start : std::uint8_t {
  kaiming,  ///< uniform within ±1/√(inputs)
  normal    ///< normal with deviation 1/rank
};

struct Settings {
  /// Patterns of parameters that get adapters. Empty: all that only matrix products read.
  std::vector<std::string> targets;
  /// Patterns of parameters that are trained besides the adapters.
  std::vector<std::string> train;
  std::int64_t rank = 8;
  /// Factor of the adapters' product.
  double scale = 2;
  double dropout = 0;
  /// Whether weight decay applies to the adapters of a parameter to which it applies.
  bool decay = false;
  Start start = Start::kaiming;
  /// How frozen matrices are stored. Empty: as the model has them.
  std::optional<strata::WeightBlocks> base = std::nullopt;
  /// Patterns of the matrices that are stored in `base`. Empty: all that only matrix products read.
  std::vector<std::string> base_targets = {};
};

[[nodiscard]] const strata::OptionSchema& schema();
[[nodiscard]] Settings read_settings(const strata::Options& options);

}  // namespace lora
