#pragma once

#include <cstdint>
#include <memory>

namespace strata::cpu {

/// Zeroed memory that is aligned to a cache line, on huge pages if it is large. \throws RuntimeError if memory is
/// short.
std::shared_ptr<void> allocate_host_memory(std::int64_t bytes);

/// Bytes that the system can provide without swapping.
std::int64_t available_memory_bytes();

}  // namespace strata::cpu
