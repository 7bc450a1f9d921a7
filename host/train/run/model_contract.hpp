#pragma once

#include "compiler/compile.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {

/// Checks that a model's graph fits the host's data and commands. Its inputs must exist in the data with the same
/// dimensions, the size of "seq" must equal the model's context, and logits must be [batch seq vocab]. \throws
/// PluginError that names both sides.
void require_model_contract(const RunSetup& setup, const CompileRequest& request);

}  // namespace strata::host
