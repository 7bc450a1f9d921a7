#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace strata::rendezvous {

/// What a process is told of the run that it is a part of.
struct ProcessEnvironment {
  int rank = 0;
  int rank_count = 1;
  /// Position among the processes of this machine, where it was given.
  std::optional<int> local_rank;
  /// Where rank 0 listens.
  std::string address;
  std::uint16_t port = 0;
  /// Known to every rank and to nobody else.
  std::string secret;
};

/// The value of an environment variable, if it is set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, or where the first two are not set what Slurm says
/// to the tasks of a job step; and STRATA_SECRET. Empty where this process is alone. \throws ConfigurationError naming
/// the variable that is missing or wrong.
[[nodiscard]] std::optional<ProcessEnvironment> read_process_environment(const Lookup& lookup);

/// The variables of this process.
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

}  // namespace strata::rendezvous
