#pragma once

#include "strata/program.hpp"

namespace strata::host {

/// Adds to every instruction the asynchronous buffers that it must wait for. An instruction waits for a buffer in
/// flight that it accesses if the communication writes the buffer, if the instruction writes it, or if the instruction
/// is its last access. Existing waits stay, and count as accesses. Collectives do not wait for each other, because they
/// run in the order in which they start. Messages and transfers have no order.
void insert_waits(Program& program);

}  // namespace strata::host
