#pragma once

#include "strata/program.hpp"

namespace strata::host {

/// Gives every instruction the buffers of communication that it must wait for: those that it touches while a
/// communication started earlier may still read or write them. Collectives run in the order in which they are started
/// and do not wait for each other; messages are outside of that order.
void insert_waits(Program& program);

}  // namespace strata::host
