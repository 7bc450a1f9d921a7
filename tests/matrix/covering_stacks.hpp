#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "matrix/feature_pairs.hpp"
#include "random_choice.hpp"

namespace strata::testing {

/// A small set of stacks that covers every pair of features, found greedily. Each stack is built around the first
/// missing pair and takes the choices that cover the most other pairs. Only the host knows whether a stack is possible,
/// so the next stack depends on the verdict on the last one.
class CoveringStacks {
 public:
  /// The stack to try next. Empty when every pair is covered or given up.
  [[nodiscard]] std::optional<Stack> next();
  /// Reports the verdict on the stack that next() returned.
  void accept();
  void refuse(const std::string& message);

  /// Pairs that no accepted stack had, each with the last message. Excludes the grammar's conflicts.
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
