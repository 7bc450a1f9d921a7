#include "strata/model.hpp"

namespace strata {

Model::~Model() = default;
ModelFactory::~ModelFactory() = default;
void ModelFactory::register_ops(OpRegistry& /*registry*/) const {}

}  // namespace strata
