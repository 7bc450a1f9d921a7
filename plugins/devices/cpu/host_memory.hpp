#pragma once

#include <cstdint>
#include <memory>

namespace strata::cpu {

/// Zeroed memory on a cache line, large ones on huge pages. \throws RuntimeError if there is not enough.
std::shared_ptr<void> allocate_host_memory(std::int64_t bytes);

/// What the system can give without swapping.
std::int64_t available_memory_bytes();

}  // namespace strata::cpu
