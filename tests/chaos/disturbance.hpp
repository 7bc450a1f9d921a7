#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "chaos/facilities.hpp"
#include "chaos/plan.hpp"
#include "chaos/process_tree.hpp"

namespace strata::testing::chaos {

using Clock = std::chrono::steady_clock;

/// What surrounds the processes of a disturbed run.
struct Surroundings {
  std::filesystem::path checkpoints;
  std::unique_ptr<SmallDisk> disk;
  std::unique_ptr<Network> network;
};

/// A fault that came in time.
struct InjectedFault {
  Fault fault;
  /// A step had been trained since the ranks were started.
  bool in_training = false;
};

/// Brings the faults of one start over a running command, each at its moment.
class Disturbance {
 public:
  /// `messages`: the file with what the command writes.
  Disturbance(ProcessTree& tree, Command& command, const Surroundings& surroundings, std::filesystem::path messages,
              Clock::time_point deadline);
  /// Undoes the faults that last.
  ~Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

  /// Returns when all faults have come, or the command has ended.
  void run(const std::vector<Fault>& faults);
  /// Continues stopped processes once the run has printed its last step: MPI_Finalize and mpirun wait for them for
  /// ever.
  void end_pauses_after_the_run();
  [[nodiscard]] const std::vector<InjectedFault>& injected() const { return injected_; }

 private:
  /// \return false if the command ends before.
  bool wait_for(const Moment& moment);
  [[nodiscard]] bool has_come(const Moment& moment);
  void look_for_checkpoints();
  /// Returns once the command catches the signal: at the very beginning it would end any program.
  void wait_until_caught(int signal);
  bool is_over();
  /// \return false if there is no such process any more.
  bool begin(const Fault& fault);
  void end(const Fault& fault);
  bool send(const Fault& fault, int signal);
  void limit_files(std::uint64_t bytes);
  /// The last trained step since the ranks were started, or 0, and the run's steps.
  struct Progress {
    int step = 0;
    int steps = 1;
  };
  [[nodiscard]] Progress progress() const;

  ProcessTree& tree_;
  Command& command_;
  const Surroundings& surroundings_;
  std::filesystem::path messages_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point deadline_;
  std::vector<InjectedFault> injected_;
  /// Temporary folders of checkpoints that were seen, and how many of them an earlier start has left.
  std::set<std::string> written_;
  std::size_t left_ = 0;
};

}  // namespace strata::testing::chaos
