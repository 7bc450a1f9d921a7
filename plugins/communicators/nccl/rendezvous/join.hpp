#pragma once

#include <memory>

#include "process_environment.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// Brings this process together with those of the other ranks: rank 0 listens, the others connect. \return the store
/// of the run, once all ranks have come. \throws ConfigurationError for what cannot be (the port is taken, the secrets
/// differ, two processes have one rank), RuntimeError that names the ranks that do not come until `deadline`.
[[nodiscard]] std::unique_ptr<Store> join(const ProcessEnvironment& environment, Clock::time_point deadline);

}  // namespace strata::rendezvous
