#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// A smaller size of the axis that run.shrink names.
struct ShrunkAxis {
  std::int64_t size = 0;
  int ranks = 0;
  /// The argument of --set that makes the axis so: "strategy.0.size=2".
  std::string override;
};

/// Checks run.shrink against the mesh: the axis exists and has as many ranks as its strategy's `size`, and the least
/// size is not larger. \throws ConfigurationError with file and line.
void check_shrink(const RunSetup& setup);

/// The largest size of the axis, at least run.shrink.min, with which the run needs at most `slots` ranks, divides its
/// batch, and passes every check of `strata check`. Empty if no axis may shrink or no size fits. `setup`: of the whole
/// run.
[[nodiscard]] std::optional<ShrunkAxis> find_shrunk_axis(const RunSetup& setup, int slots, PluginRegistry& registry);

}  // namespace strata::host
