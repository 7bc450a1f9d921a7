#pragma once

#include <string>

#include "strata/error.hpp"

namespace strata::host {

/// The message of the ConfigurationError that `call` throws; "accepted" if it throws none.
template <class Call>
std::string refusal(Call&& call) {
  try {
    (void)call();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace strata::host
