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
  holds,    ///< trains as one rank does, and as the compiler said it would
  refused,  ///< for a reason that is known
  fails     ///< anything else
};

/// What became of a stack.
struct Proof {
  Verdict verdict = Verdict::fails;
  /// What is wrong, one line each; of a refused stack the message.
  std::vector<std::string> findings = {};
  const Refusal* refusal = nullptr;
  int ranks = 0;
  /// From one rank in f64, relative.
  double worst_difference = 0;
  /// Equal for stacks of the same programs.
  std::size_t programs = 0;
};

/// Proves stacks on the reference device. Used by one thread at a time.
class Prover {
 public:
  explicit Prover(const std::string& plugin_folder) : plugins_({plugin_folder}) {}

  /// Compiles a configuration in f64, checks its communication, trains three steps and compares them with one rank's.
  /// A stack that chooses shorter types is trained in these too, and held to one rank as closely as they allow.
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
  const SingleRank& single_rank(const host::RunSetup& stack, DType float_type);

  host::PluginRegistry plugins_;
  /// By type and configuration.
  std::map<std::pair<DType, std::string>, SingleRank> single_ranks_;
};

}  // namespace strata::testing
