#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"

namespace strata::host {

/// How a process ended.
struct ProcessEnd {
  /// The first rank of the process.
  int rank = 0;
  /// Exit code of a process that was not ended by a signal.
  int exit_code = 0;
  /// Signal that ended the process, or 0.
  int signal = 0;
  /// True if it did not end in time, so that the launcher ended it.
  bool by_force = false;
  /// True if the kernel may have ended it because memory ran out.
  bool out_of_memory = false;
  /// The host of the process. Empty if all are on one.
  std::string host = {};
  /// Number of the process's ranks.
  int ranks = 1;

  /// True if the run stopped with a checkpoint before its end.
  [[nodiscard]] bool stopped() const { return exit_code == kStopped; }
  [[nodiscard]] bool failed() const { return (exit_code != 0 && !stopped()) || signal != 0 || by_force; }
};

/// Number of processes that the kernel has ended because memory ran out, of this machine or a control group, since the
/// machine started. `statistics`: a file as /proc/vmstat. 0 if it does not tell.
[[nodiscard]] std::int64_t out_of_memory_kills(const std::filesystem::path& statistics = "/proc/vmstat");

/// The ranks of a process in words: "rank 2", "ranks 2 and 3" or "ranks 4 to 7".
[[nodiscard]] std::string describe_ranks(int first, int count);

/// The end of a process in words: "rank 2 on node1 ended with exit code 1", or "the process of ranks 4 to 7 ended …".
[[nodiscard]] std::string describe(const ProcessEnd& end);

/// Puts first those that a signal ended, and last those that were ended by force. Peers that end because a process died
/// may be noticed before that process.
void sort_by_cause(std::vector<ProcessEnd>& ends);

}  // namespace strata::host
