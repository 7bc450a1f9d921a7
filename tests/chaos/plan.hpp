#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chaos/facilities.hpp"

namespace strata::testing::chaos {

/// Strategies whose ranks are processes. `name` identifies the undisturbed run.
struct Stack {
  std::string name;
  std::string strategies;
  int ranks = 2;
  /// Sequences of a micro-batch.
  int micro = 2;
  int steps = 40;
};

enum class FaultKind : std::uint8_t {
  kill,        ///< SIGKILL
  pause,       ///< SIGSTOP, and SIGCONT after a while or never
  request,     ///< a signal to stop the run
  full_disk,   ///< no space on the file system of the output folder
  file_limit,  ///< RLIMIT_FSIZE of all ranks
  cut,         ///< the loopback interface, through which ranks talk, is down
};

enum class Target : std::uint8_t { rank, launcher, tree };

/// When a fault comes, counted from the start of a command.
struct Moment {
  enum class Kind : std::uint8_t { time, step, writing };
  Kind kind = Kind::step;
  /// Milliseconds, a step, or the number of a checkpoint's temporary folder.
  int value = 1;
  /// Added to the moment.
  int microseconds = 0;
};

struct Fault {
  FaultKind kind = FaultKind::kill;
  Moment moment;
  Target target = Target::rank;
  int rank = 0;
  /// Of a request: the signal, how often it is sent, and milliseconds in between.
  int signal = 0;
  int times = 1;
  int gap = 0;
  /// Milliseconds until the fault is undone. Negative: the command ends first.
  int duration = -1;
  /// Of file_limit: the largest size of a file. Of full_disk: the free space that is left.
  std::uint64_t bytes = 0;

  [[nodiscard]] bool lasts() const { return duration < 0; }
};

enum class DamagedFile : std::uint8_t { tensors, manifest, folder, latest, identity, log };
enum class Change : std::uint8_t { flip, cut, removed, emptied, pipe, torn };

/// A change of a file between a stop and the next start.
struct Damage {
  DamagedFile file = DamagedFile::tensors;
  Change change = Change::flip;
  /// How many checkpoints, the newest first.
  int checkpoints = 1;
  /// Decides which file and byte.
  std::uint64_t place = 0;
};

/// What the operator does when a damaged folder is refused.
enum class Recovery : std::uint8_t { restore, name_checkpoint, overwrite };

/// One start of the command.
struct Start {
  std::vector<Fault> faults;
  /// Milliseconds of each sync to the disk; of each write a tenth. 0: as fast as the disk is.
  int slow_disk = 0;
  /// Milliseconds of one sync of each process. 0: none.
  int stall = 0;
  /// The next start does not wait for the processes that this one has left.
  bool impatient = false;
  /// After the start.
  std::vector<Damage> damages;
};

/// A disturbed run: starts with faults. One without follows, and must end the run.
struct Plan {
  std::uint64_t number = 0;
  std::string communicator = "gloo";
  Stack stack;
  int checkpoint_every = 4;
  int keep = 0;
  bool background = true;
  int max_restarts = 0;
  /// Seconds of the communicator's timeout.
  int timeout = 20;
  /// Seconds of the launcher's grace. 0: the default.
  int grace = 0;
  bool evaluates = false;
  /// The output folder is on a file system of its own, which is small.
  bool small_disk = false;
  /// The log is on the file system of the output folder.
  bool log_in_output = false;
  std::vector<Start> starts;
  Recovery recovery = Recovery::restore;

  [[nodiscard]] int fault_count() const;
};

/// The plan with a number, always the same for a seed on machines with the same facilities.
[[nodiscard]] Plan random_plan(std::uint64_t seed, std::uint64_t number, const Facilities& facilities);
/// One line.
[[nodiscard]] std::string describe(const Plan& plan);
[[nodiscard]] std::string describe(const Fault& fault);

}  // namespace strata::testing::chaos
