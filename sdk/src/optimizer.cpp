#include "strata/optimizer.hpp"

namespace strata {

UpdateContext::~UpdateContext() = default;
Optimizer::~Optimizer() = default;
OptimizerFactory::~OptimizerFactory() = default;

std::vector<std::string> Optimizer::states() const { return {}; }

std::optional<std::string> Optimizer::refusal(const ParameterDescription& /*parameter*/) const { return std::nullopt; }

}  // namespace strata
