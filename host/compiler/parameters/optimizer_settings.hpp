#pragma once

#include <cstdint>

namespace strata::host {

/// The update rule, as far as the program contains it; the learning rate comes at run time.
struct OptimizerSettings {
  enum class Kind : std::uint8_t { adamw, sgd };
  Kind kind = Kind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.1;
  /// Largest global gradient norm; 0 for no clipping.
  double clip = 1.0;
};

}  // namespace strata::host
