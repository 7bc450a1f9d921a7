#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "chaos/damage.hpp"
#include "chaos/disturbance.hpp"
#include "chaos/references.hpp"
#include "chaos/settings.hpp"

namespace strata::testing::chaos {

/// What became of a disturbed run.
struct Outcome {
  /// Why the run is not what it should be, or "".
  std::string failure;
  int starts = 0;
  int refusals = 0;
  int faults = 0;
  /// Faults whose moment did not come, since the command had ended.
  int late = 0;
  /// Starts whose mpirun went on without ranks after a fault, until it was killed.
  int stuck_launchers = 0;
  double seconds = 0;
};

/// Executes a plan: starts, disturbs and starts again, until a start without faults has to end the run.
class DisturbedRun {
 public:
  /// `folder`: empty, of this run alone.
  DisturbedRun(const Settings& settings, Plan plan, std::filesystem::path folder, References& references);

  /// Does not throw.
  Outcome run();
  /// For a failure: the commands, the ends of what they wrote, the log, and the files.
  [[nodiscard]] std::string report() const;

 private:
  struct Ended {
    CommandEnd end;
    std::string messages;
    std::vector<InjectedFault> injected;
  };

  void run_to_its_end();
  void disturb(const Start& start);
  /// Starts that must be refused, and what the operator does then. \return the arguments of the next start.
  std::vector<std::string> arguments_of_start();
  Ended execute(const std::vector<std::string>& arguments, const Start& start);
  /// Waits for the end of a command. \throws std::runtime_error at the deadline.
  void await(Command& command, Disturbance& disturbance, Clock::time_point deadline);
  void note_progress(const std::string& messages);
  void wait_for_processes();
  [[nodiscard]] bool expects_refusal() const;
  [[nodiscard]] std::filesystem::path messages_of(int start) const;

  const Settings& settings_;
  Plan plan_;
  std::filesystem::path folder_;
  References& references_;
  RunPaths paths_;
  RunFiles files_;
  Surroundings surroundings_;
  ProcessTree tree_;
  Outcome outcome_;
  std::vector<std::string> history_;
  /// Lines of the log up to this step may be damaged.
  LogScope scope_;
  /// The log was damaged, and the run has not been continued since.
  bool log_is_damaged_ = false;
  bool was_impatient_ = false;
};

}  // namespace strata::testing::chaos
