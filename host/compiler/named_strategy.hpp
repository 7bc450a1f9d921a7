#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/error.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// A strategy with the name that messages call it by ("strategy 1 'ddp'").
struct NamedStrategy {
  std::string name;
  std::shared_ptr<const Strategy> strategy;
};

/// Calls into a strategy. What it refuses carries its name: "strategy 1 'pipeline': split: found …".
template <class Call>
auto with_name(const NamedStrategy& strategy, const Call& call) {
  try {
    return call();
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(strategy.name + ": " + error.what());
  }
}

/// What at most one strategy of a stack may decide, with the one that did.
template <class Decision>
struct Claim {
  const NamedStrategy* by = nullptr;
  Decision decision;
};

/// Asks every strategy; `ask` gives an optional decision. \throws ConfigurationError naming both where two decide on
/// `what`.
template <class Ask>
[[nodiscard]] auto find_claim(const std::vector<NamedStrategy>& strategies, const std::string& what, const Ask& ask) {
  using Decision = typename decltype(ask(*strategies.front().strategy))::value_type;
  std::optional<Claim<Decision>> found;
  for (const NamedStrategy& each : strategies) {
    auto decision = with_name(each, [&] { return ask(*each.strategy); });
    if (!decision) continue;
    if (found) {
      throw ConfigurationError(each.name + " and " + found->by->name + " both decide on " + what +
                               "; only one strategy of a stack may");
    }
    found = Claim<Decision>{&each, std::move(*decision)};
  }
  return found;
}

/// The strategy that says yes, if any. \throws ConfigurationError naming both where two do.
template <class Ask>
[[nodiscard]] const NamedStrategy* find_claimant(const std::vector<NamedStrategy>& strategies, const std::string& what,
                                                 const Ask& ask) {
  const auto claim = find_claim(
      strategies, what, [&](const Strategy& strategy) { return ask(strategy) ? std::optional(true) : std::nullopt; });
  return claim ? claim->by : nullptr;
}

}  // namespace strata::host
