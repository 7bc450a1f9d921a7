#include "strata/error.hpp"

namespace strata {

// Out of line so that the type information, which catch compares, is unique in libstrata.
Error::~Error() = default;
ConfigurationError::~ConfigurationError() = default;
VerificationError::~VerificationError() = default;
RuntimeError::~RuntimeError() = default;

}  // namespace strata
