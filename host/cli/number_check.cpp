#include "cli/number_check.hpp"

#include <limits>
#include <sstream>

namespace strata::host {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::max();

std::string accepted_numbers(double low, double high) {
  std::ostringstream text;
  text.precision(15);
  if (high < kUnlimited) {
    text << low << " to " << high;
  } else {
    text << "at least " << low;
  }
  return text.str();
}

}  // namespace

CLI::Validator number_between(double low, double high) {
  const std::string accepted = accepted_numbers(low, high);
  return {[=](const std::string& argument) {
            double value = 0;
            // A comparison with NaN is false.
            const bool is_number = CLI::detail::lexical_cast(argument, value);
            if (is_number && value >= low && value <= high) return std::string();
            return "found " + argument + "; accepted: " + accepted;
          },
          accepted};
}

CLI::Validator number_from(double low) { return number_between(low, kUnlimited); }

}  // namespace strata::host
