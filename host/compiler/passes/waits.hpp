#pragma once

#include "strata/program.hpp"

namespace strata::host {

/// Gives every instruction the buffers of communication and transfers that it must wait for: those that it touches
/// while one that started earlier may still write them, or read them where the instruction writes or is the last to
/// touch them. Waits that are there already stay, and count as touches. Collectives run in the order in which they are
/// started and do not wait for each other; messages and transfers are outside of that order.
void insert_waits(Program& program);

}  // namespace strata::host
