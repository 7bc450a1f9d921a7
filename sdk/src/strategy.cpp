#include "strata/strategy.hpp"

namespace strata {

Strategy::~Strategy() = default;
std::vector<MeshAxis> Strategy::axes() const { return {}; }
std::vector<Rule> Strategy::rules() const { return {}; }
void Strategy::rewrite_forward(Graph& /*graph*/, const OpRegistry& /*registry*/) const {}
void Strategy::rewrite(Graph& /*graph*/, const OpRegistry& /*registry*/) const {}
std::optional<GradientBuckets> Strategy::gradient_buckets() const { return std::nullopt; }

StrategyFactory::~StrategyFactory() = default;
void StrategyFactory::register_ops(OpRegistry& /*registry*/) const {}

}  // namespace strata
