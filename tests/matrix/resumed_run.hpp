#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "loading/plugin_registry.hpp"
#include "matrix/drawn_run.hpp"

namespace strata::testing {

/// The result of a drawn resumption.
struct ResumedRun {
  /// What is wrong, with the configurations. Empty if nothing is.
  std::string failure = {};
  /// Largest relative difference of a loss or gradient norm from one rank.
  double difference = 0;
};

/// Trains drawn resumptions by `strata train`: two steps and an evaluation of the first stack, and from its checkpoint
/// two steps and an evaluation of the second. Both are compared with one rank, which does not stop between. A command
/// that does not end is killed, with all of its ranks, and is a failure.
class ResumedRuns {
 public:
  /// `communicator`: "local", whose ranks are threads, "gloo" or "mpi", whose ranks are processes.
  ResumedRuns(const std::vector<std::filesystem::path>& plugin_folders, std::string communicator);

  [[nodiscard]] ResumedRun run(std::uint64_t number);

 private:
  [[nodiscard]] bool accepts(const std::string& toml);

  std::vector<std::filesystem::path> plugin_folders_;
  std::string communicator_;
  host::PluginRegistry plugins_;
};

/// Runs `count` resumptions from number `from` on, `jobs` at a time, and prints failures and a summary. \return the
/// number of failures.
int run_resumptions(const std::string& communicator, std::uint64_t from, std::uint64_t count, int jobs,
                    const std::filesystem::path& plugin_folder, std::ostream& out);

}  // namespace strata::testing
