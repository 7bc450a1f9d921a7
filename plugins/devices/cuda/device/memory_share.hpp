#pragma once

#include <cstdint>

namespace strata::cuda {

/// Bytes of a GPU that one rank may plan with: its share of the free memory minus `reserve`. The reserve is for memory
/// that is allocated after planning: graphs, the code of cuBLASLt's algorithms and NCCL's buffers. -1 reserves a
/// sixteenth of the share, at most 2 GiB. \throws ConfigurationError if nothing is left.
std::int64_t plannable_bytes(std::int64_t free, int sharing, std::int64_t reserve);

}  // namespace strata::cuda
