#pragma once

#include <cstdint>
#include <string>

#include "strata/plugin.hpp"

namespace compress {

enum class Method : std::uint8_t { power_sgd, top_k };

/// The plugin's options.
struct Settings {
  std::string axis;
  int size = 1;
  Method method = Method::power_sgd;
  /// PowerSGD: columns of the two factors.
  std::int64_t rank = 1;
  /// Top-k: share of the elements of a piece that are exchanged.
  double density = 0.01;
  /// Parameters with fewer elements are summed exactly.
  std::int64_t smallest = 0;
};

[[nodiscard]] const strata::OptionSchema& schema();

[[nodiscard]] Settings read_settings(const strata::Options& options);

}  // namespace compress
