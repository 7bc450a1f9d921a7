#pragma once

#include "compiler/compile.hpp"
#include "runtime/executor.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// Compiles the evaluation pass without a training step beside it, as `strata evaluate` does. `request`: that of a
/// training step.
[[nodiscard]] Compiled compile_evaluation_alone(const RunSetup& setup, CompileRequest request);

/// Runs such a pass once on a rank, with initial parameters in memory of its own. \return the mean loss over all ranks.
double evaluate_alone(const Compiled& evaluation, Device& device, Communicator& communicator, std::uint64_t seed,
                      InputSource& inputs);

}  // namespace strata::host
