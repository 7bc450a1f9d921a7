#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/host_list.hpp"
#include "launch/rank_processes.hpp"

namespace strata::host {

/// Where the ranks of a run meet.
struct Meeting {
  std::string address;
  std::string port;
  std::string secret;
};

/// A random secret of 64 hexadecimal digits.
[[nodiscard]] std::string random_secret();

/// Number of ranks on each host, and in each process. The latter divides the former.
struct Placement {
  std::vector<int> counts;
  int ranks_per_process = 1;
};

/// The processes of each host, whose ranks are neighbours. `words`: the arguments of `strata train`.
[[nodiscard]] std::vector<std::vector<ProcessRequest>> rank_requests(const std::vector<std::string>& words,
                                                                     const Placement& placement,
                                                                     const Meeting& meeting);

/// Adds the variables of this process that ranks of other hosts need too: those whose names begin with STRATA_, NCCL_,
/// GLOO_ or OMP_, and the times of a Slurm job.
void add_own_variables(std::vector<ProcessRequest>& requests);

/// The address of the first of several hosts with ranks, for all ranks. `given`: that of --master-address, which stands
/// for the first host of the list.
[[nodiscard]] std::string meeting_address(const std::vector<HostSlots>& hosts, const std::vector<int>& counts,
                                          const std::string& first, const std::string& given);

}  // namespace strata::host
