#pragma once

#include <cstdint>
#include <functional>

#include "strata/program.hpp"

namespace strata::host {

/// Elements [begin, begin + elements) of a buffer.
struct BufferSlice {
  BufferId buffer = -1;
  std::int64_t begin = 0;
  std::int64_t elements = 0;
};

/// Copies a slice of a rank's buffer to host memory (ReadSlice) or from it (WriteSlice).
using ReadSlice = std::function<void(const BufferSlice&, void*)>;
using WriteSlice = std::function<void(const BufferSlice&, const void*)>;

}  // namespace strata::host
