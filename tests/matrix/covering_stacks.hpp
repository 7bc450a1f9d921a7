#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "matrix/feature_pairs.hpp"
#include "random_choice.hpp"

namespace strata::testing {

/// Few stacks that have every pair of features between them, found greedily: each is built around the first pair that
/// is missing, and takes what covers the most other pairs. Since what can be is the host's decision, the next stack
/// depends on the verdict over the one before it.
class CoveringStacks {
 public:
  /// The stack to try next; empty once every pair is covered or given up.
  [[nodiscard]] std::optional<Stack> next();
  /// The verdict over the stack that next() gave.
  void accept();
  void refuse(const std::string& message);

  /// Pairs that no stack had which was accepted, each with the last message; the grammar's conflicts are none of them.
  [[nodiscard]] const std::vector<std::string>& given_up() const { return given_up_; }
  [[nodiscard]] std::size_t covered_pairs() const { return pairs_.count_covered(); }

 private:
  FeaturePairs pairs_;
  RandomChoice choice_{0};
  Stack stack_;
  FeaturePairs::Pair target_;
  int refusals_ = 0;
  std::vector<std::string> given_up_;
};

}  // namespace strata::testing
