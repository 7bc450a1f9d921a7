#include "strata/model.hpp"

namespace strata {

Model::~Model() = default;

DimSizes Model::sizes() const { return {}; }

std::optional<Generation> Model::generation() const { return std::nullopt; }

ModelFactory::~ModelFactory() = default;

const HuggingFaceFormat* ModelFactory::huggingface() const { return nullptr; }

}  // namespace strata
