#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "conformance/single_rank.hpp"
#include "conformance/stack_faults.hpp"
#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

enum class StackVerdict : std::uint8_t {
  holds,    ///< trains like one rank, with the memory and traffic that the compiler planned
  refused,  ///< a plugin or the host refuses the configuration
  fails     ///< anything else
};

/// The result of proving a stack.
struct StackProof {
  StackVerdict verdict = StackVerdict::fails;
  StackFaults faults = {};
  /// The message of a stack that is refused, does not compile or does not run.
  std::string message = {};
  int ranks = 0;
  /// Largest relative difference from one rank in f64.
  double worst_difference = 0;
  /// A hash that is equal for stacks with equal programs.
  std::size_t programs = 0;

  /// The faults, or the message.
  [[nodiscard]] std::vector<std::string> findings() const;
};

/// As many steps as it takes to execute every instruction of a stack.
inline constexpr int kAllSteps = 1 << 20;

/// Proves stacks on the configured device. The single rank uses the reference device. Used by one thread at a time.
class StackProver {
 public:
  /// `most_steps`: a stack whose instructions take more steps to be executed is proved for these steps only.
  /// `exact`: the largest relative difference from one rank in f64.
  explicit StackProver(PluginRegistry& plugins, int most_steps = kAllSteps, double exact = kExact)
      : plugins_(plugins), most_steps_(most_steps), exact_{exact, exact, exact} {}

  /// Compiles a configuration in f64, checks its communication, trains some steps, evaluates between them, and compares
  /// both with one rank. A stack that chooses 16-bit types is also trained in these and compared with a tolerance for
  /// them. A larger difference is a fault unless one rank itself, disturbed by one unit in the last place, differs as
  /// much.
  [[nodiscard]] StackProof prove(const RunConfiguration& configuration);

 private:
  void compare_with_one_rank(const RunSetup& setup, const StepPrograms& programs, DType float_type, StackProof& proof);
  const SingleRank& single_rank(const SingleRun& run);
  [[nodiscard]] int steps_of(const Compiled& stack) const;

  PluginRegistry& plugins_;
  int most_steps_;
  Tolerance exact_;
  /// Results of one rank by SingleRun::key.
  std::map<std::string, SingleRank> single_ranks_;
};

/// True if `message` says that a hook of a plugin failed, as opposed to a refusal.
[[nodiscard]] bool is_hook_failure(const std::string& message);

}  // namespace strata::host
