#pragma once

#include <cstdint>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Lifetime of one instance of a transient buffer: the first and the last instruction of the scheduled program, counted
/// from 0, during which it needs its memory.
struct Lifetime {
  std::int64_t bytes = 0;
  int begin = 0;
  int end = 0;
  std::int64_t instance = 0;
};

/// Lifetimes in ascending order of begin. A lifetime reaches from the first use to the last. Communication and
/// transfers extend the lifetimes of their buffers until they are waited for or the step ends. A buffer that the host
/// reads after the step lives to the end of the step.
[[nodiscard]] std::vector<Lifetime> buffer_lifetimes(const Program& program, const BufferRanges& ranges);

/// The first number of slots from `least` on with which every instance of a buffer has ended before the next one in its
/// slot begins. Micro-batch m has slot m modulo the number. `micro_batches` if there is no lower one.
[[nodiscard]] int find_slots(const std::vector<Lifetime>& lifetimes, const BufferRanges& ranges, int micro_batches,
                             int least);

/// Memory that instances of one buffer use one after the other.
struct MemoryBlock {
  struct Span {
    int begin = 0;
    int end = 0;
  };

  std::int64_t bytes = 0;
  /// The lifetimes of the instances, ascending.
  std::vector<Span> spans;
};

/// An offset in bytes for every block. Blocks with lifetimes that overlap do not overlap in memory.
struct MemoryPacking {
  std::vector<std::int64_t> offsets;
  /// Bytes up to the end of the highest block.
  std::int64_t bytes = 0;
};

/// How long a packing is sought.
enum class PackingEffort : std::uint8_t {
  best,   ///< tries several orders and takes the best
  quick,  ///< tries as few as possible, so that it may need more bytes
  none    ///< places nothing: the bytes are a lower bound for any packing, and all offsets 0
};

/// Packs blocks, which are in ascending order of their begin, at multiples of `alignment`. Deterministic.
[[nodiscard]] MemoryPacking pack_memory(const std::vector<MemoryBlock>& blocks, std::int64_t alignment,
                                        PackingEffort effort = PackingEffort::best);

/// The moment with the most bytes, if each instance is rounded up to `alignment`. The bytes are a lower bound for any
/// packing.
struct MemoryPeak {
  int moment = 0;
  std::int64_t bytes = 0;
};

[[nodiscard]] MemoryPeak find_peak(const std::vector<Lifetime>& lifetimes, std::int64_t alignment = 1);

}  // namespace strata::host
