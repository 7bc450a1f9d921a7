#include "strata/optimizer.hpp"

namespace strata {

WholeContext::~WholeContext() = default;
UpdateContext::~UpdateContext() = default;
Optimizer::~Optimizer() = default;
OptimizerFactory::~OptimizerFactory() = default;

std::vector<OptimizerState> Optimizer::states(const ParameterDescription& /*parameter*/) const { return {}; }

bool Optimizer::wants_own_bucket() const { return false; }

std::optional<std::string> Optimizer::refusal(const ParameterDescription& /*parameter*/) const { return std::nullopt; }

}  // namespace strata
