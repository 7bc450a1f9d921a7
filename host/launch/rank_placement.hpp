#pragma once

#include <string>
#include <vector>

#include "launch/rank_processes.hpp"

namespace strata::host {

/// A machine on which ranks run, and how many may run there.
struct HostSlots {
  /// As ssh takes it: "node1", "user@10.0.0.7".
  std::string name;
  int slots = 0;

  /// The name without a user.
  [[nodiscard]] std::string address() const;
};

/// Reads the argument of --hosts: "node1:4,node2:4", or a file with a host a line, as `node1:4` or `node1 slots=4`. In
/// a file, '#' begins a comment. \throws ConfigurationError that says where, for a host without slots or named twice.
[[nodiscard]] std::vector<HostSlots> read_hosts(const std::string& argument);

/// The hosts with as many slots as whole processes of `ranks_per_process` ranks fill. \throws ConfigurationError if a
/// host has fewer slots than a process needs.
[[nodiscard]] std::vector<HostSlots> for_processes(std::vector<HostSlots> hosts, int ranks_per_process);

/// True for a name of the machine of this process: its host name with or without the domain, or "localhost".
[[nodiscard]] bool is_this_machine(const std::string& name);

/// Number of ranks on each host: the hosts are filled in their order. The slots are enough for `ranks`.
[[nodiscard]] std::vector<int> place_ranks(const std::vector<HostSlots>& hosts, int ranks);

[[nodiscard]] int total_slots(const std::vector<HostSlots>& hosts);

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
