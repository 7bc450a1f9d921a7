#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace strata::testing {

/// The configuration with this number: a model whose graph is drawn (testing/plugins), under a random stack of 1 to 8
/// ranks. Two of three have pipeline stages.
[[nodiscard]] std::string drawn_run(std::uint64_t number);

/// Configurations of one drawn model. The strategy `exact` of matrix/graphs makes all of them train in f64.
struct DrawnResumption {
  std::string first;
  /// Another stack, which continues the run of the first.
  std::string second;
  /// One rank, which should train as both.
  std::string alone;
  int first_ranks = 1;
  int second_ranks = 1;
  /// Sequences per step of each.
  int global_batch = 1;
};

/// The drawn resumption with this number. Its stacks train as one rank does: none lets replicas train apart or
/// compresses gradients. `accepts`: whether a configuration is one that the host does not refuse.
[[nodiscard]] DrawnResumption drawn_resumption(std::uint64_t number,
                                               const std::function<bool(const std::string& toml)>& accepts);

/// The folders of the plugins that drawn runs need: those of Strata in `plugins`, of the conformance kit, and of tests.
[[nodiscard]] std::vector<std::filesystem::path> drawn_plugin_folders(const std::filesystem::path& plugins);

}  // namespace strata::testing
