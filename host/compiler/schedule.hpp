#pragma once

#include <vector>

#include "compiler/buckets.hpp"
#include "compiler/program_builder.hpp"

namespace strata::host {

/// Orders the tasks of a rank: prologue, then forward and backward of each micro-batch in turn, then the epilogue.
/// With `overlap`, the last micro-batch has a backward task of its own in which every bucket's gradients are reduced as
/// soon as they are complete, beside the rest of the backward pass; without, buckets are left to the epilogue.
void schedule(ProgramBuilder& builder, int micro_batches, const std::vector<Bucket>& buckets, bool overlap);

}  // namespace strata::host
