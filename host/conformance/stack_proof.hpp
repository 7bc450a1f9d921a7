#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.hpp"
#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"
#include "strata/communicator.hpp"
#include "strata/mesh.hpp"
#include "verify/verification.hpp"

namespace strata::host {

struct SingleRun;
struct SingleRank;

/// The traffic of a rank by kind ("all_reduce", "send") and by the axes along which its peers are.
using TrafficByAxes = std::map<std::pair<std::string, std::vector<Axis>>, Traffic>;

/// A world that wraps another one. Its communicators count traffic from the calls alone.
class CountingWorld final : public World {
 public:
  CountingWorld(std::unique_ptr<World> world, const Mesh& mesh);

  [[nodiscard]] int rank_count() const override { return world_->rank_count(); }
  [[nodiscard]] std::vector<int> local_ranks() const override { return world_->local_ranks(); }
  [[nodiscard]] CommunicatorLimits limits() const override { return world_->limits(); }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override;

  /// The traffic of every rank. Valid when the ranks have ended.
  [[nodiscard]] const std::vector<TrafficByAxes>& traffic() const { return traffic_; }

 private:
  std::unique_ptr<World> world_;
  const Mesh& mesh_;
  std::vector<TrafficByAxes> traffic_;
};

/// Largest relative differences from one rank that rounding may cause.
struct Tolerance {
  double loss = 0;
  double gradient_norm = 0;
  double parameter = 0;
};

/// The tolerance of every value in f64.
inline constexpr double kExact = 1e-9;

/// True if some difference is above the tolerance.
[[nodiscard]] bool exceeds(const StackDifference& difference, const Tolerance& tolerance);

/// A stack after some steps, what was compiled for it, and one rank after the same steps.
struct RunEvidence {
  const Compiled& compiled;
  const StackResult& stack;
  /// Traffic of each rank.
  const std::vector<TrafficByAxes>& traffic;
  StackDifference difference = {};
  Tolerance tolerance = {kExact, kExact, kExact};
  /// The evaluation pass that ran between the steps. Null: none.
  const Compiled* evaluation = nullptr;
  /// The evaluation pass without a training step, which ran once before. Null: none.
  const Compiled* evaluation_alone = nullptr;
  /// How much one rank's result changes if its initial parameters are disturbed by one unit in the last place. A
  /// difference of that size is amplified rounding. Null: every difference above the tolerance is a fault.
  const StackDifference* sensitivity = nullptr;
};

/// The faults of a stack, one per line.
struct StackFaults {
  /// Communication that does not match or deadlocks, which the check before the run finds.
  std::vector<std::string> communication;
  /// The stack trained differently from one rank, or replicas differ.
  std::vector<std::string> training;
  /// Differences above the tolerance that rounding explains. They are no faults.
  std::vector<std::string> amplified;
  /// Memory differs from the plan.
  std::vector<std::string> memory;
  /// Traffic differs from what `strata explain` counts.
  std::vector<std::string> traffic;

  /// The faults of every kind.
  [[nodiscard]] std::vector<std::string> all() const;
};

/// Adds the faults of a run to `faults`.
void find_faults(const RunEvidence& evidence, StackFaults& faults);

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
  void compare_with_one_rank(const RunSetup& setup, const VerifiedPrograms& programs, DType float_type,
                             StackProof& proof);
  const SingleRank& single_rank(const SingleRun& run);
  [[nodiscard]] int steps_of(const Compiled& stack) const;

  PluginRegistry& plugins_;
  int most_steps_;
  Tolerance exact_;
  /// Results of one rank by SingleRun::key.
  std::map<std::string, std::shared_ptr<const SingleRank>> single_ranks_;
};

/// True if `message` says that a hook of a plugin failed, as opposed to a refusal.
[[nodiscard]] bool is_hook_failure(const std::string& message);

}  // namespace strata::host
