#pragma once

#include <cstdint>

#include "strata/options.hpp"

namespace rotary {

/// The sizes of one decoder.
struct Settings {
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t embed = 128;
  std::int64_t context = 128;
  /// Rows of the vocabulary. 0: as many as the data has.
  std::int64_t vocab = 0;
  double base = 10000;
};

/// The options of the model plugin.
[[nodiscard]] const strata::OptionSchema& option_schema();

/// \throws strata::OptionError for heads that do not divide embed into an even number.
[[nodiscard]] Settings settings_from(const strata::Options& options);

}  // namespace rotary
