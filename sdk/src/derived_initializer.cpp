#include "strata/internal/derived_initializer.hpp"

#include "strata/error.hpp"

namespace strata {

DerivedInitializer::~DerivedInitializer() = default;

double DerivedInitializer::value(std::span<const std::int64_t> /*index*/, const Shape& /*shape*/,
                                 std::uint64_t /*key*/) const {
  throw VerificationError("derives its values from those of '" + source().name + "' and gives none alone");
}

}  // namespace strata
