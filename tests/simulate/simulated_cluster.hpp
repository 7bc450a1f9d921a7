#pragma once

#include <string>

#include "cluster/cluster.hpp"
#include "compiler/compile.hpp"
#include "setup/run_setup.hpp"
#include "stacks/stack_configuration.hpp"

namespace strata::testing {

/// Nodes of eight like a DGX A100, with round numbers.
[[nodiscard]] host::Cluster round_cluster(int nodes);

/// A training step of a small GPT-2, compiled.
struct SmallStep {
  explicit SmallStep(const std::string& strategies, int global_batch, int micro_batch, int layers = 2);

  BuiltPlugins plugins;
  host::RunSetup setup;
  host::Compiled compiled;
};

}  // namespace strata::testing
