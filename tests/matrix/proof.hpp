#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "matrix/evidence.hpp"
#include "matrix/refusals.hpp"
#include "plugins/plugin_registry.hpp"
#include "train/run/run_setup.hpp"
#include "train/verify/stack_run.hpp"

namespace strata::testing {

enum class Verdict {
  holds,    ///< trains like one rank, with the memory and traffic that the compiler planned
  refused,  ///< refused for a known reason
  fails     ///< anything else
};

/// The result of proving a stack.
struct Proof {
  Verdict verdict = Verdict::fails;
  /// The faults, one per line. For a refused stack, the message.
  std::vector<std::string> findings = {};
  const Refusal* refusal = nullptr;
  int ranks = 0;
  /// Largest relative difference from one rank in f64.
  double worst_difference = 0;
  /// A hash that is equal for stacks with equal programs.
  std::size_t programs = 0;
};

/// Proves stacks on the reference device. Used by one thread at a time.
class Prover {
 public:
  explicit Prover(const std::string& plugin_folder) : plugins_({plugin_folder}) {}

  /// Compiles a configuration in f64, checks its communication, trains three steps and compares them with one rank. A
  /// stack that chooses 16-bit types is also trained in these and compared with a tolerance for them.
  /// \param name of the configuration in messages.
  [[nodiscard]] Proof prove(const std::string& toml, const std::string& name);

 private:
  /// A model after some steps on one rank.
  struct SingleRank {
    host::StackResult result;
    Graph graph;
  };

  host::StackDifference compare_with_one_rank(const host::RunSetup& setup, const host::Compiled& compiled,
                                              DType float_type, std::vector<std::string>& findings);
  const SingleRank& single_rank(const host::RunSetup& stack, const host::Compiled& of_stack, DType float_type);

  host::PluginRegistry plugins_;
  /// Results of one rank by type and configuration.
  std::map<std::pair<DType, std::string>, SingleRank> single_ranks_;
};

}  // namespace strata::testing
