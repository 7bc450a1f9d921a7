#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verify/stack_run.hpp"

namespace strata::host {

/// What one rank of another process reports of a verification.
struct RankResult {
  std::vector<double> losses = {};
  std::vector<double> gradient_norms = {};
  std::vector<double> evaluations = {};
  /// Whole tensors. Elements that the rank does not hold are NaN.
  WholeTensors parameters = {};
  WholeTensors averages = {};
  std::int64_t planned_peak_bytes = 0;
  std::int64_t arena_peak_bytes = 0;

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static RankResult decode(const std::string& text);
};

}  // namespace strata::host
