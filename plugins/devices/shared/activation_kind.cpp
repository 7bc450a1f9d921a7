#include "shared/activation_kind.hpp"

#include <algorithm>

namespace strata::devices {

std::optional<std::string> unsupported_activation_kind(const OpInstance& op, const std::vector<std::string>& known) {
  const std::string& kind = op.attributes.word("kind");
  if (std::find(known.begin(), known.end(), kind) != known.end()) return std::nullopt;
  return "has no kernel for '" + kind + "'; accepted: " + join(known, ", ");
}

}  // namespace strata::devices
