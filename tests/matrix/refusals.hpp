#pragma once

#include <string>
#include <vector>

namespace strata::testing {

/// A reason for which the host may refuse a stack. There are no others.
struct Refusal {
  /// Name in the summary.
  std::string name;
  /// Parts of the message in order.
  std::vector<std::string> message;
  /// Why no program could execute the stack.
  std::string why;
};

[[nodiscard]] const std::vector<Refusal>& known_refusals();

/// The refusal that matches a message about the configuration `source`. Null if the message matches none, or does not
/// contain its place in the configuration.
[[nodiscard]] const Refusal* find_refusal(const std::string& source, const std::string& message);

}  // namespace strata::testing
