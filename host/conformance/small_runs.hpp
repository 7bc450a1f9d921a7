#pragma once

#include <string>
#include <vector>

namespace strata::host {

/// A run in which plugins are checked unless the user gives one.
struct SmallRun {
  /// The model in messages.
  std::string model;
  std::string toml;
};

/// The first run is that of most checks. Stacks are proved in both.
[[nodiscard]] const std::vector<SmallRun>& small_runs();

}  // namespace strata::host
