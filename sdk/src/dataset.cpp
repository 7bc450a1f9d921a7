#include "strata/dataset.hpp"

#include "strata/error.hpp"

namespace strata {

Dataset::~Dataset() = default;
DatasetFactory::~DatasetFactory() = default;

void Dataset::read_common(std::span<void* const> /*destinations*/) const {
  throw VerificationError("the dataset declares an input that is the same for all samples, but does not read it");
}

std::optional<Vocabulary> Dataset::vocabulary() const { return std::nullopt; }

DimSizes DatasetFactory::sizes(const Options& /*options*/) const { return {}; }

std::string DatasetFactory::unit(const Options& /*options*/) const { return "sample"; }

}  // namespace strata
