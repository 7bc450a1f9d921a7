#pragma once

#include "verify/defined_replicas.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// Trains as the definitions of optimizers and strategies say, on a single rank that simulates the replicas and
/// their workers one after another. `single`: the program of one rank without the strategies' axes, compiled with
/// OptimizerSettings::is_update_outside. `world`: has one rank.
[[nodiscard]] StackResult run_definition(const Compiled& single, World& world, const MakeDevice& make_device,
                                         const StackSettings& settings, const OptimizerSettings& optimizer,
                                         const SimulatedReplicas& replicas, InputSource& inputs);

}  // namespace strata::host
