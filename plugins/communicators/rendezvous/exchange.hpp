#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "heartbeat.hpp"
#include "process_environment.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// Small collectives over a store, for agreements before the real communicator exists.
class Exchange {
 public:
  Exchange(Store& store, int rank, int rank_count, std::chrono::duration<double> timeout);

  /// The values of all ranks, by rank. Each `name` is used once. \throws RuntimeError that names the ranks that did not
  /// take part. \throws AbortedError if another rank has failed.
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& name, const std::string& value);
  /// The value of `root`.
  [[nodiscard]] std::string broadcast(const std::string& name, int root, const std::string& value);

 private:
  [[nodiscard]] std::vector<std::string> gather(const std::string& name, const std::string& value,
                                                Clock::time_point deadline);
  [[nodiscard]] std::string take(const std::string& key, const std::string& what, Clock::time_point deadline);
  [[noreturn]] void give_up(const std::string& what, Clock::time_point deadline);

  Store& store_;
  int rank_;
  int rank_count_;
  std::chrono::duration<double> timeout_;
};

/// The place of a process among the processes of its machine.
struct HostPlace {
  int ranks_on_host = 1;
  int index_on_host = 0;
  /// True if all ranks run on one machine.
  bool is_only_host = true;
};

/// Exchanges host names with all ranks. \throws as Exchange.
[[nodiscard]] HostPlace find_host_place(Store& store, const ProcessEnvironment& environment,
                                        std::chrono::duration<double> timeout);

/// Connects this process with those of the other ranks: rank 0 listens, the others connect to it. \return the store of
/// the run, when all ranks have joined. \throws ConfigurationError if that is impossible: the port is in use, the
/// secrets differ, or two processes have one rank. \throws RuntimeError that names the ranks that did not join until
/// `deadline`. From then on the processes exchange heartbeats, and the run fails if one of them is silent for too long.
[[nodiscard]] std::unique_ptr<Store> join(const ProcessEnvironment& environment, Clock::time_point deadline,
                                          const Heartbeat& heartbeat = {});

}  // namespace strata::rendezvous
