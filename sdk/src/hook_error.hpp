#pragma once

#include <string>

#include "strata/communicator.hpp"
#include "strata/error.hpp"
#include "strata/internal/hook_scope.hpp"

namespace strata {

/// Throws the exception being handled again with the hook in front of its message. `hook`: with the plugin, as in "op
/// 'x' of library 1 'mine': hook 'infer'". Errors of Strata keep their kind. Any other exception becomes an `Other`. An
/// AbortedError passes unchanged, since it names the rank that failed. Call it only in a catch block.
template <class Other>
[[noreturn]] void rethrow_from(const std::string& hook) {
  const std::string text = current_exception_text();
  const std::string message = hook + ": " + text;
  try {
    throw;
  } catch (const AbortedError&) {
    throw;
  } catch (const OptionError& error) {
    throw OptionError(error.option(), message);
  } catch (const ConfigurationError&) {
    throw ConfigurationError(message);
  } catch (const VerificationError&) {
    throw VerificationError(message);
  } catch (const RuntimeError&) {
    throw RuntimeError(message);
  } catch (...) {
    throw Other(hook + " threw " + text);
  }
}

}  // namespace strata
