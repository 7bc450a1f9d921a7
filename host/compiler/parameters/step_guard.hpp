#pragma once

#include <vector>

#include "compiler/optimizer_groups.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Names of reports of a program with a guard. The verdict is 0, or NaN if the step updates nothing. The host writes
/// the two limits before every step.
inline constexpr const char* kGuardVerdict = "guard";
inline constexpr const char* kSquaredLossLimit = "squared_loss_limit";
inline constexpr const char* kNormLimit = "norm_limit";
/// A limit that no loss and no gradient norm exceeds.
inline constexpr double kNoLimit = 1e150;

/// Emits the guard of a training step after its loss, count and norm are complete: `scale`, the factor of all
/// gradients, becomes NaN in a step that the guard refuses. An update with such a factor changes nothing.
void emit_step_guard(ProgramBuilder& builder, StepGuard guard, BufferId scale, std::vector<Instruction>& instructions);

}  // namespace strata::host
