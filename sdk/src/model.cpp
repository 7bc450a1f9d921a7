#include "strata/model.hpp"

namespace strata {

Model::~Model() = default;
ModelFactory::~ModelFactory() = default;

}  // namespace strata
