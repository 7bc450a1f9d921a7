#include "shared/index_map.hpp"

#include "strata/error.hpp"

namespace strata::devices {

const IndexMap& index_map(const OpInstance& op, const Dim& dim) {
  const auto found = op.index_maps.find(dim);
  if (found == op.index_maps.end()) {
    throw ConfigurationError("op '" + op.op + "' (" + op.name + ") has no index map for dim '" + dim + "'");
  }
  return found->second;
}

}  // namespace strata::devices
