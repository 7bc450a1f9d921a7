#include "cli/exit_codes.hpp"

#include "strata/error.hpp"

namespace strata::host {

int exit_code_of_exception() {
  try {
    throw;
  } catch (const ConfigurationError&) {
    return kRefused;
  } catch (...) {
    return kFailed;
  }
}

}  // namespace strata::host
