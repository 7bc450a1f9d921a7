#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// Steps in which programs execute the same instructions.
struct StepVariant {
  /// The first such step. It represents the others.
  std::uint64_t step = 0;
  /// Number of such steps in StepVariants::period steps.
  std::int64_t count = 1;
};

/// The kinds of steps that the conditions of instructions distinguish (StepCondition). Example: one exchange every four
/// steps gives two variants: step 0, which stands for 3 of 4 steps, and step 3.
struct StepVariants {
  /// The variants repeat after so many steps.
  std::int64_t period = 1;
  /// In the order of their first steps.
  std::vector<StepVariant> variants;

  /// The number of steps, from the first on, that execute every variant.
  [[nodiscard]] std::uint64_t steps_to_execute_all() const { return variants.back().step + 1; }
  /// The variant in words, such as "steps with step % 4 == 3" or "3 of 4 steps, such as step 0". Empty if there is one.
  [[nodiscard]] std::string describe(const StepVariant& variant) const;
};

/// The conditions of a program's instructions, except the one that always holds, in ascending order.
[[nodiscard]] std::vector<StepCondition> step_conditions(const Program& program);

/// Which of `conditions` hold in `step`.
[[nodiscard]] std::vector<bool> holding(const std::vector<StepCondition>& conditions, std::uint64_t step);

/// The variants of programs that run together. \throws ConfigurationError if they repeat only after very many steps.
[[nodiscard]] StepVariants step_variants(const std::vector<const Program*>& programs);
[[nodiscard]] StepVariants step_variants(const std::vector<Program>& programs);
[[nodiscard]] StepVariants step_variants(const Program& program);

}  // namespace strata::host
