#pragma once

#include "compiler/parameters/buckets.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// What tells the programs of a compilation apart: ranks of one class share one program.
struct RankClass {
  /// Which stage its ranks are on.
  int stage = 0;
  /// False for ranks that hold parameters which another rank updates (ParameterStorage::single_writer).
  bool updates = true;
};

/// Fills Bucket::completion and Bucket::completed: gradients that are whole are brought to the ranks' pieces, then
/// completed over the axes that remain; with a single writer they are sent to it instead. `lasting`: the completed
/// gradients outlive the task that completes them.
void plan_completion(ProgramBuilder& builder, Bucket& bucket, const RankClass& rank_class, bool lasting);

}  // namespace strata::host
