#pragma once

#include <string>
#include <vector>

namespace strata::testing {

/// Why a stack cannot be: the only reasons for which one may be refused.
struct Refusal {
  /// As the summary calls it.
  std::string name;
  /// Pieces of the message, in their order.
  std::vector<std::string> message;
  /// Why no program could do it.
  std::string why;
};

[[nodiscard]] const std::vector<Refusal>& known_refusals();

/// The refusal that a message of the configuration `source` is; null if it is none of the known ones, or if it doesn't
/// give its place in the configuration.
[[nodiscard]] const Refusal* find_refusal(const std::string& source, const std::string& message);

}  // namespace strata::testing
