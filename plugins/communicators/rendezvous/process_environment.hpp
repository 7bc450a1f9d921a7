#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace strata::rendezvous {

/// What a process knows about its run from its environment.
struct ProcessEnvironment {
  int rank = 0;
  int rank_count = 1;
  /// Position among the processes of this machine, if it is known.
  std::optional<int> local_rank;
  /// Address and port on which rank 0 listens.
  std::string address;
  std::uint16_t port = 0;
  /// A secret that only the ranks of the run know.
  std::string secret;
  /// Ranks of the world in each process. If there are several, `rank` and `rank_count` above count processes.
  int ranks_per_process = 1;
};

/// The process in words: "rank 3", or "process 1 (ranks 2 to 5)".
[[nodiscard]] std::string process_name(int process, int ranks_per_process);

/// The value of an environment variable, if it is set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and STRATA_SECRET. If RANK and WORLD_SIZE are not set,
/// reads the variables of Open MPI's mpirun, those of PMI, or those that Slurm sets for the tasks of a job step. Empty
/// if this process runs alone. \throws ConfigurationError that names a missing or wrong variable.
[[nodiscard]] std::optional<ProcessEnvironment> read_process_environment(const Lookup& lookup);

/// Looks up an environment variable of this process.
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

/// The first host of a list in Slurm's notation. Example: "gpu[07-09,12],login" gives "gpu07". \throws
/// ConfigurationError if there is none.
[[nodiscard]] std::string first_slurm_host(std::string_view list);

}  // namespace strata::rendezvous
