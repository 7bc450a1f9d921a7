#pragma once

#include <string>
#include <vector>

#include "matrix/grammar.hpp"

namespace strata::testing {

/// One strategy of a stack: a row of the grammar and a choice for each of its options.
struct StrategyChoice {
  std::size_t row = 0;
  std::vector<std::size_t> choices;

  [[nodiscard]] const StrategyRow& strategy() const { return grammar().strategies.at(row); }
  /// The value of an option as written in the grammar.
  [[nodiscard]] const std::string& option(const std::string& name) const;
  [[nodiscard]] int ranks() const;
};

/// A sentence of the grammar: a run of a small model with a stack of strategies.
struct Stack {
  /// Outermost axis first.
  std::vector<StrategyChoice> strategies;
  /// The choice for each row of Grammar::run.
  std::vector<std::size_t> run;
  /// Position in Grammar::sizes.
  std::size_t sizes = 0;

  [[nodiscard]] bool has(std::size_t row) const;
  [[nodiscard]] const std::string& run_option(const std::string& name) const;
  [[nodiscard]] int ranks() const;
  /// Sequences of a step.
  [[nodiscard]] int global_batch() const;
};

/// A stack without strategies, with the first choice of everything.
[[nodiscard]] Stack plain_stack();
/// A strategy with the first choice of every option.
[[nodiscard]] StrategyChoice plain_strategy(std::size_t row);

/// The stack's configuration. `strata verify --full` accepts it too.
[[nodiscard]] std::string to_toml(const Stack& stack);

/// The same with other lines of the sections [model] and [data].
[[nodiscard]] std::string to_toml(const Stack& stack, const std::string& model, const std::string& data);

/// Positions of the model sizes that the stack's axes divide.
[[nodiscard]] std::vector<std::size_t> fitting_sizes(const Stack& stack);

}  // namespace strata::testing
