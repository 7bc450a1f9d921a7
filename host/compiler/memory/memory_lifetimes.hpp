#pragma once

#include <cstdint>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Lifetime of one instance of a transient buffer: the first and the last instruction of the scheduled program, counted
/// from 0, during which it needs its memory.
struct Lifetime {
  std::int64_t instance = 0;
  std::int64_t bytes = 0;
  int begin = 0;
  int end = 0;
};

/// Lifetimes in ascending order of begin. A lifetime reaches from the first use to the last. Communication and
/// transfers extend the lifetimes of their buffers until they are waited for or the step ends. A buffer that the host
/// reads after the step lives to the end of the step.
[[nodiscard]] std::vector<Lifetime> buffer_lifetimes(const Program& program, const BufferRanges& ranges);

}  // namespace strata::host
