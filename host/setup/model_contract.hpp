#pragma once

#include "compiler/compile.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// Checks that a model's graph fits the dataset and the commands. Its inputs must be inputs of the dataset with the
/// same dimensions and types, and the output of its generation must exist. \throws PluginError that names both sides.
void require_model_contract(const RunSetup& setup, const CompileRequest& request);

}  // namespace strata::host
