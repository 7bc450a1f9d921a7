#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// Bytes of a rank's memory outside of its device.
struct OffloadBytes {
  std::int64_t host = 0;
  std::int64_t file = 0;

  bool operator==(const OffloadBytes&) const = default;
};

/// The larger of each.
[[nodiscard]] OffloadBytes largest(const OffloadBytes& a, const OffloadBytes& b);

/// Where every buffer of a rank lies. In the one arena on its device: persistent buffers first, then what lives for a
/// part of the step. In each place outside of it: persistent buffers one behind the other.
struct MemoryPlan {
  /// Byte offset in the buffer's place by buffer and micro-batch: offsets[buffer][micro_batch + 1]; entry 0 is for
  /// persistent buffers and for those of prologue and epilogue. -1 where no such instance exists. Views carry their own
  /// (resolved) offset.
  std::vector<std::vector<std::int64_t>> offsets;
  std::int64_t persistent_bytes = 0;
  /// Size of the arena: the planned peak.
  std::int64_t arena_bytes = 0;
  /// Sizes of the places outside of the device.
  OffloadBytes offload;
  /// Bytes of the arena alive at the moment at which most are, by kind (the arena may be larger by alignment and
  /// fragmentation).
  std::map<BufferKind, std::int64_t> bytes_at_peak;

  [[nodiscard]] std::int64_t offset(BufferId buffer, int micro_batch) const;
};

/// How a rank keeps a parameter's values: programs that share them agree on it.
struct ValueStorage {
  MemoryPlace place = MemoryPlace::device;
  std::vector<ShardedDim> dims;
  /// Of values that are a piece of a bucket.
  std::optional<FlatSharding> sharding;

  bool operator==(const ValueStorage&) const = default;
};

struct SharedParameter {
  ValueStorage storage;
  /// Bytes from the beginning of the place.
  std::int64_t offset = 0;
};

/// Buffers that another program of the same rank has placed already: parameters shared by training and evaluation. Both
/// programs run in one arena, one after the other: the second finds the parameters where they are, leaves the first's
/// other persistent buffers alone, and places its own persistent buffers from transient_begin on, where they keep their
/// contents only as long as the first program does not run.
struct SharedMemory {
  /// By name.
  std::map<std::string, SharedParameter> parameters;
  /// Where the transient part of the first program begins: nothing of the second but shared parameters lies before it.
  std::int64_t transient_begin = 0;
  /// What the first program has outside of the device.
  OffloadBytes offload;
};

/// Every buffer starts at a multiple of this many bytes, but for shared parameters and views.
inline constexpr std::int64_t kBufferAlignment = 256;

/// Plans by lifetime over the scheduled program. Communication runs beside computation: what it reads or writes stays
/// alive until an instruction waits for it (or the step ends). Collectives of a rank run in the order in which they
/// start, so waiting for one ends those before it too; a message ends by its own wait only. \throws VerificationError
/// where a buffer with shared parameters does not fit their places, or would hold other elements of them.
[[nodiscard]] MemoryPlan plan_memory(const Program& program, const SharedMemory& shared = {});

/// What a second program of the same rank can share with `program`.
[[nodiscard]] SharedMemory shared_memory(const Program& program, const MemoryPlan& plan);

/// Proves the plan without trusting the planner: no two buffers that are alive at once overlap, nothing lies outside
/// the arena. \throws VerificationError naming both buffers and the instruction.
void verify_memory(const Program& program, const MemoryPlan& plan);

}  // namespace strata::host
