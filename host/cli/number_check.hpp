#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace strata::host {

/// Checks that an argument is a number of at least `low` and at most `high`. It is never NaN or infinite. The message
/// says what was found and what is accepted.
[[nodiscard]] CLI::Validator number_between(double low, double high);
[[nodiscard]] CLI::Validator number_from(double low);

}  // namespace strata::host
