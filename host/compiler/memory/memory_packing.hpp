#pragma once

#include <cstdint>
#include <vector>

namespace strata::host {

/// A block of memory that is needed from moment `begin` to moment `end`, both included.
struct MemoryBlock {
  std::int64_t bytes = 0;
  int begin = 0;
  int end = 0;
};

/// An offset in bytes for every block. Blocks whose times overlap do not overlap in memory.
struct MemoryPacking {
  std::vector<std::int64_t> offsets;
  /// Bytes up to the end of the highest block.
  std::int64_t bytes = 0;
};

/// Packs `blocks`, which are in ascending order of begin, at multiples of `alignment`. Tries several orders and takes
/// the best. Deterministic.
[[nodiscard]] MemoryPacking pack_memory(const std::vector<MemoryBlock>& blocks, std::int64_t alignment);

/// A lower bound for any packing: the most bytes needed at one moment, with each block rounded up to `alignment`.
[[nodiscard]] std::int64_t most_bytes_at_once(const std::vector<MemoryBlock>& blocks, std::int64_t alignment);

}  // namespace strata::host
