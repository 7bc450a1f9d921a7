#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/memory/memory_packing.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "program_sketch.hpp"

namespace strata::host::test {

/// Buffers of one task, and how long they live.
struct LifetimeSketch : TaskSketch {
  BufferId loaded(const std::string& name, std::int64_t elements = 64) { return TaskSketch::loaded(name, elements); }
  BufferId unary(const std::string& name, BufferId x, const std::vector<BufferId>& waits = {}) {
    const BufferId y = sketch.buffer(name, program.buffer(x).elements());
    push(sketch.op("unary", name, {x}, y));
    program.tasks[0].instructions.back().waits = waits;
    return y;
  }
  void all_reduce(BufferId id) { push(sketch.collective(CollectiveKind::all_reduce, next_id++, "dp", id, id)); }

  /// First and last instruction during which `buffer` keeps its memory.
  [[nodiscard]] std::pair<int, int> lifetime(BufferId buffer) const {
    const BufferRanges ranges(program);
    for (const Lifetime& each : buffer_lifetimes(program, ranges)) {
      if (ranges.root_of_instance(each.instance) == buffer) return {each.begin, each.end};
    }
    return {-1, -1};
  }

  std::uint64_t next_id = 1;
};

}  // namespace strata::host::test
