#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// A run of bytes in one instance of a buffer. An instance is a root buffer together with a micro-batch. A persistent
/// buffer has one instance.
struct ByteRange {
  std::int64_t instance = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] bool overlaps(const ByteRange& other) const {
    return instance == other.instance && begin < other.end && other.begin < end;
  }
};

/// The position of every buffer within its root.
class BufferRanges {
 public:
  /// \throws VerificationError if a view has a missing base or is a view of itself.
  explicit BufferRanges(const Program& program);

  [[nodiscard]] BufferId root(BufferId buffer) const { return place(buffer).root; }
  /// First byte of `buffer` within its root.
  [[nodiscard]] std::int64_t begin(BufferId buffer) const { return place(buffer).begin; }
  [[nodiscard]] bool persistent(BufferId buffer) const { return place(buffer).persistent; }

  /// The bytes of `buffer` for a task of `micro_batch` (-1: prologue, epilogue).
  [[nodiscard]] ByteRange range(BufferId buffer, int micro_batch) const;
  /// Calls `visit(range)` for all bytes whose communication an instruction of `micro_batch` waits for.
  template <class Visit>
  void for_each_wait(const Instruction& instruction, int micro_batch, const Visit& visit) const {
    for (const BufferId buffer : instruction.waits) visit(range(buffer, micro_batch));
    for (const EarlierWait& each : instruction.earlier_waits) {
      if (micro_batch >= each.distance) visit(range(each.buffer, micro_batch - each.distance));
    }
  }
  /// Number of the instance.
  [[nodiscard]] std::int64_t instance(BufferId buffer, int micro_batch) const;
  [[nodiscard]] BufferId root_of_instance(std::int64_t instance) const;
  [[nodiscard]] int micro_batch_of_instance(std::int64_t instance) const;
  /// The instance in words: "%7 'h.0.mlp' of micro-batch 2".
  [[nodiscard]] std::string describe_instance(std::int64_t instance) const;

 private:
  struct Place {
    BufferId root = -1;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool persistent = false;
  };

  [[nodiscard]] const Place& place(BufferId buffer) const { return places_.at(static_cast<std::size_t>(buffer)); }

  const Program& program_;
  std::vector<Place> places_;  // of all buffers
};

/// A value for every run of bytes.
template <class Value>
class ByteMap {
 public:
  /// Gives the bytes [begin, end) another value.
  void set(std::int64_t begin, std::int64_t end, Value value) {
    split(begin);
    split(end);
    runs_.erase(runs_.lower_bound(begin), runs_.lower_bound(end));
    runs_[begin] = {end, std::move(value)};
  }

  /// Calls `visit(begin, end, value)` for every run in [begin, end). The value is null for a run that has none.
  template <class Visit>
  void for_each_run(std::int64_t begin, std::int64_t end, const Visit& visit) const {
    auto next = runs_.upper_bound(begin);
    if (next != runs_.begin() && std::prev(next)->second.end > begin) --next;
    while (begin < end) {
      const bool has_value = next != runs_.end() && next->first <= begin;
      const std::int64_t run_end = has_value ? next->second.end : next == runs_.end() ? end : next->first;
      visit(begin, std::min(run_end, end), has_value ? &next->second.value : nullptr);
      begin = run_end;
      if (has_value) ++next;
    }
  }

 private:
  struct Run {
    std::int64_t end = 0;
    Value value = {};
  };

  void split(std::int64_t at) {
    auto found = runs_.upper_bound(at);
    if (found == runs_.begin()) return;
    --found;
    if (found->first == at || found->second.end <= at) return;
    const Run rest = found->second;
    found->second.end = at;
    runs_[at] = rest;
  }

  std::map<std::int64_t, Run> runs_;  // by first byte
};

/// Offsets of `buffer` within its root, in bytes: of its first byte, and after its last.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> bytes_in_root(const Program& program, BufferId buffer);

/// True for a flat buffer, such as a bucket: it has one dimension without a meaning and consists of views.
[[nodiscard]] bool is_flat(const Buffer& buffer);

/// The buffer in words: "%7 'h.0.mlp'".
[[nodiscard]] std::string describe(const Program& program, BufferId buffer);
/// The instruction in words: "task 'forward', instruction 3 linear 'h.0.mlp'", with the micro-batch unless it is
/// negative.
[[nodiscard]] std::string describe(const Program& program, const TaskInstance& at, std::size_t instruction);

/// Calls `visit` for every instruction that the rank executes in some step, in the order in which it starts them.
void for_each_instruction(
    const Program& program,
    const std::function<void(const TaskInstance& at, std::size_t index, const Instruction& instruction)>& visit);
/// The same for the instructions that the rank executes in `step`. See step_variants().
void for_each_instruction(
    const Program& program, std::uint64_t step,
    const std::function<void(const TaskInstance& at, std::size_t index, const Instruction& instruction)>& visit);

}  // namespace strata::host
