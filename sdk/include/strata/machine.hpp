#pragma once

#include <cstdint>

#include "strata/export.hpp"

/// \file
/// The part of this machine that the process may use.

namespace strata {

/// Number of cores on which this process may run, at least 1: those of its affinity (`taskset`, an MPI launcher), and
/// not more than the quota of its control groups, rounded down.
STRATA_API int usable_cores();

/// Bytes of memory that this process can still get without swapping: those that the machine has available, and not more
/// than what the limit of each of its control groups leaves.
STRATA_API std::int64_t usable_memory_bytes();

}  // namespace strata
