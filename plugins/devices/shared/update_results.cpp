#include "shared/update_results.hpp"

namespace strata::devices {

std::optional<std::string> UpdateResults::mismatch(const OpInstance& op, std::size_t states) const {
  const std::size_t expected = state(states);
  if (op.results.size() != expected) {
    return "takes " + std::to_string(expected) + " results for values in " +
           std::string(to_string(op.results[0].dtype)) + " and states in " + std::string(to_string(full_)) +
           ", found " + std::to_string(op.results.size());
  }
  for (std::size_t i = 1; i < op.results.size(); ++i) {
    const DType found = op.results[i].dtype;
    if (found != full_) return "result " + std::to_string(i) + " cannot be " + std::string(to_string(found));
  }
  return std::nullopt;
}

std::size_t sgd_states(const OpInstance& op) { return op.attributes.number("momentum") > 0 ? 1 : 0; }

}  // namespace strata::devices
