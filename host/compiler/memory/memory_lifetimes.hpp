#pragma once

#include <cstdint>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// An instance of a buffer that is not persistent, and the instructions of the scheduled program (counted from 0)
/// during which it must keep its memory, both ends included.
struct Lifetime {
  std::int64_t instance = 0;
  std::int64_t bytes = 0;
  int begin = 0;
  int end = 0;
};

/// Lifetimes in the order in which they begin. From the first use to the last; what a communication or transfer uses
/// lives until it is waited for or the step ends; what the host reads after the step lives until then.
[[nodiscard]] std::vector<Lifetime> buffer_lifetimes(const Program& program, const BufferRanges& ranges);

}  // namespace strata::host
