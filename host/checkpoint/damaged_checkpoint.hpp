#pragma once

#include "strata/error.hpp"

namespace strata::host {

/// A file of a checkpoint is missing, truncated or altered. A run that may choose continues from an older checkpoint.
class DamagedCheckpoint : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

}  // namespace strata::host
