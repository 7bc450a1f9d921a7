#pragma once

#include <memory>

#include "runtime/flight_recorder.hpp"
#include "strata/communicator.hpp"

namespace strata::host {

/// Wraps a communicator so that `recorder` notes every communication: of programs, agreements and checkpoints.
/// `ends_at_wait`: true if a communication is complete when Request::wait() returns, as in host memory. Otherwise it is
/// when check() returns.
[[nodiscard]] std::unique_ptr<Communicator> recorded(std::unique_ptr<Communicator> communicator,
                                                     FlightRecorder& recorder, bool ends_at_wait);

}  // namespace strata::host
