#pragma once

#include <cstdint>
#include <memory>

namespace strata::cpu {

/// Zeroed memory that is aligned to a cache line, on huge pages if it is large. \throws RuntimeError if memory is
/// short.
std::shared_ptr<void> allocate_host_memory(std::int64_t bytes);

}  // namespace strata::cpu
