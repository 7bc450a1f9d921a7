#pragma once

#include <cstdint>
#include <vector>

namespace strata::host {

/// A block of memory that is needed during the moments [begin, end].
struct MemoryBlock {
  std::int64_t bytes = 0;
  int begin = 0;
  int end = 0;
};

/// An offset for every block such that blocks that are needed at once do not overlap.
struct MemoryPacking {
  std::vector<std::int64_t> offsets;
  /// End of the highest block.
  std::int64_t bytes = 0;
};

/// Packs `blocks` (in ascending order of begin) at multiples of `alignment`: the best of several orders, deterministic.
[[nodiscard]] MemoryPacking pack_memory(const std::vector<MemoryBlock>& blocks, std::int64_t alignment);

/// What no packing can go below: most bytes, each block rounded up to `alignment`, that are needed at one moment.
[[nodiscard]] std::int64_t most_bytes_at_once(const std::vector<MemoryBlock>& blocks, std::int64_t alignment);

}  // namespace strata::host
