#pragma once

#include <cstdint>
#include <string>

#include "strata/plugin.hpp"
#include "strata/program.hpp"

namespace localsgd {

/// The plugin's options.
struct Settings {
  std::string axis;
  int size = 1;
  /// Inner steps between two outer steps of a parameter.
  std::int64_t steps = 1;
  double outer_lr = 1;
  double outer_momentum = 0;
  bool nesterov = true;
  int fragments = 1;
  bool overlap = false;
  double mixing = 0.5;
  /// Bits of an element of an outer gradient in its exchange; 0: it is exchanged in its own type.
  int bits = 0;
  /// True: gradients in f64 are exchanged in f64, so that a verification is exact.
  bool spares_f64 = true;

  /// The steps in which a fragment's outer step is applied. Fragments take turns, and the last one is applied in the
  /// last of `steps` steps.
  [[nodiscard]] strata::StepCondition applied(int fragment) const {
    return {steps, (fragment + 1) * steps / fragments - 1};
  }
  /// The steps in which its outer gradient is computed: with overlap the steps before.
  [[nodiscard]] strata::StepCondition computed(int fragment) const {
    return {steps, applied(fragment).phase - (overlap ? 1 : 0)};
  }
};

[[nodiscard]] const strata::OptionSchema& schema();

/// \throws OptionError if options contradict each other.
[[nodiscard]] Settings read_settings(const strata::Options& options);

}  // namespace localsgd
