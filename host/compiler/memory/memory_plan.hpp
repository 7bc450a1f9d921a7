#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/memory/memory_packing.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Bytes that a rank uses outside of its device.
struct OffloadBytes {
  std::int64_t host = 0;
  std::int64_t file = 0;

  bool operator==(const OffloadBytes&) const = default;
};

/// The larger value for each place.
[[nodiscard]] OffloadBytes largest(const OffloadBytes& a, const OffloadBytes& b);

/// The offset of every buffer of a rank. The device has one arena: persistent buffers first, then transient buffers,
/// which share memory if their lifetimes do not overlap. Host memory and the file hold persistent buffers one after
/// another.
struct MemoryPlan {
  /// Byte offset of a buffer instance in its place: offsets[buffer][1 + micro_batch % slots()]. Entry 0 is for
  /// persistent buffers and for the prologue and epilogue. -1 if the instance does not exist. The offset of a view
  /// includes its offset in its base.
  std::vector<std::vector<std::int64_t>> offsets;
  std::int64_t persistent_bytes = 0;
  /// Size of the arena, which is the planned peak.
  std::int64_t arena_bytes = 0;
  /// Bytes used outside of the device.
  OffloadBytes offload;
  /// Bytes alive at the moment with the most live bytes, by kind. The arena may be larger because of alignment and
  /// fragmentation.
  std::map<BufferKind, std::int64_t> bytes_at_peak;

  /// Micro-batches with offsets of their own. The next one uses those of the first, which needs them no more.
  [[nodiscard]] int slots() const { return offsets.empty() ? 1 : static_cast<int>(offsets.front().size()) - 1; }
  [[nodiscard]] std::int64_t offset(BufferId buffer, int micro_batch) const;
  /// The micro-batch (-1: none) of the instance that the host reads after the step: the last one of `micro_batches`.
  [[nodiscard]] int reported(BufferId buffer, int micro_batches) const;

 private:
  [[nodiscard]] std::int64_t find(BufferId buffer, int micro_batch) const;
};

/// How a rank stores the values of a parameter. Programs that share a parameter must agree on it.
struct ValueStorage {
  MemoryPlace place = MemoryPlace::device;
  std::vector<ShardedDim> dims;
  /// Set if the values are a piece of a bucket.
  std::optional<FlatSharding> sharding;

  bool operator==(const ValueStorage&) const = default;
};

struct SharedParameter {
  ValueStorage storage;
  /// Offset in bytes from the beginning of the place.
  std::int64_t offset = 0;
};

/// The memory that a first program of a rank, such as the training step, shares with a second one, such as the
/// evaluation pass. Both programs use the same arena, one after the other. The second program uses the parameters at
/// their existing offsets, may read its optimizer states, and leaves other persistent buffers of the first alone. Its
/// own persistent buffers start at transient_begin, so they lose their contents when the first program runs.
struct SharedMemory {
  /// Shared parameters by name.
  std::map<std::string, SharedParameter> parameters;
  /// Offsets of the optimizer states and caches by the names of their buffers. A second program that has such a buffer
  /// of the same name uses it.
  std::map<std::string, std::int64_t> states;
  /// Offset at which the transient part of the first program begins. Below it the second program uses only shared
  /// parameters.
  std::int64_t transient_begin = 0;
  /// Bytes that the first program uses outside of the device.
  OffloadBytes offload;
};

/// Alignment of buffers in bytes. Views and shared parameters are exempt.
inline constexpr std::int64_t kBufferAlignment = 256;

/// Plans by lifetime over the scheduled program (buffer_lifetimes). `effort`: how long it seeks the smallest arena.
/// \throws ConfigurationError if all of very many micro-batches need memory at the same time. \throws VerificationError
/// if a buffer with shared parameters does not fit at their offsets, or would hold other elements of them.
[[nodiscard]] MemoryPlan plan_memory(const Program& program, const SharedMemory& shared = {},
                                     PackingEffort effort = PackingEffort::best);

/// The memory of `program` that a second program of the same rank can share.
[[nodiscard]] SharedMemory shared_memory(const Program& program, const MemoryPlan& plan);

/// Proves the plan without relying on the planner: no two buffers that are alive at once overlap, and all buffers are
/// inside their place. \throws VerificationError that names both buffers and the instruction.
void verify_memory(const Program& program, const OpRegistry& registry, const MemoryPlan& plan);

}  // namespace strata::host
