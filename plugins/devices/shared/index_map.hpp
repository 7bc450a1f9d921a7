#pragma once

#include "strata/device.hpp"

namespace strata::devices {

/// \throws ConfigurationError if the instance has no map for `dim`.
const IndexMap& index_map(const OpInstance& op, const Dim& dim);

/// Several dims as one, row-major (the heads of attention).
IndexMap index_map(const OpInstance& op, const Dims& dims);

}  // namespace strata::devices
