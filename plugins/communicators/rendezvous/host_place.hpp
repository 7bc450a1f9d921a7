#pragma once

#include <chrono>

#include "process_environment.hpp"
#include "store.hpp"

namespace strata::rendezvous {

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

}  // namespace strata::rendezvous
