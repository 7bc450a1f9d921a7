#pragma once

#include <vector>

#include "compiler/parameters/buckets.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Orders the tasks of a rank: prologue, `work` of the micro-batches, epilogue. With `overlap`, the task in which a
/// bucket's last gradient is made has, in that one execution, the bucket's completion right behind it, beside the rest
/// of the work; without, completions are left to the epilogue.
void schedule(ProgramBuilder& builder, const std::vector<ScheduledTask>& work, int micro_batches,
              const std::vector<Bucket>& buckets, bool overlap);

}  // namespace strata::host
