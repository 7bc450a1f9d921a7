#pragma once

#include <utility>
#include <vector>

#include "compiler/placement/stages.hpp"
#include "strata/mesh.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Ranks that share one program. Everything else that depends on a rank is resolved from its coordinates at run time.
struct RankClass {
  /// The stage of the ranks.
  int stage = 0;
  /// False for ranks that do not update, because another rank does (ParameterStorage::single_writer).
  bool updates = true;
};

/// The classes of the ranks of a mesh.
struct RankClasses {
  std::vector<RankClass> classes;
  /// Index into `classes` of each rank.
  std::vector<int> of_rank;
};

[[nodiscard]] RankClasses classify_ranks(const Mesh& mesh, const Stages& stages,
                                         const std::vector<ParameterStorage>& storage);

}  // namespace strata::host
