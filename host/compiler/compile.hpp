#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/compile_request.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "compiler/placement/bucket.hpp"
#include "compiler/placement/metrics.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/program/step_variants.hpp"
#include "strata/graph.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// The buckets that an evaluation pass shares with a program.
struct SharedBuckets {
  /// Those of which ranks store pieces of the values: StoredParameters::dealt, and those of a training step that are
  /// gathered for each step.
  std::vector<Bucket> dealt;
  /// Those of a training step whose values have a moving average.
  std::vector<Bucket> averaged;
};

/// The result of compile(): one program per class of ranks, each with a memory plan.
struct Compiled {
  Graph graph;
  Mesh mesh;
  Stages stages;
  std::vector<Program> programs;
  std::vector<MemoryPlan> plans;
  /// Index into `programs` of each rank.
  std::vector<int> class_of_rank;
  /// By program: the ranks that run it, and what an evaluation pass shares with it.
  std::vector<RankClass> classes;
  std::vector<SharedBuckets> buckets;
  /// By program: the one whose instructions it repeats with messages of its own; -1: none.
  std::vector<int> repeats;
  /// Names of strategies without effect: their axes have one rank, and no hook changed anything.
  std::vector<std::string> idle_strategies;
  /// What strategies could not do for ops, with their names.
  std::set<std::string> notes;
  /// How each parameter is updated. Empty without training.
  AssignedGroups groups;
  /// The groups of parameters whose gradient norms the program reports.
  NormGroupIndex norm_groups;
  /// What the report kMetricsReport holds.
  std::vector<PlacedMetric> metrics;

  [[nodiscard]] const Program& program(int rank) const {
    return programs.at(static_cast<std::size_t>(class_of_rank.at(static_cast<std::size_t>(rank))));
  }
  [[nodiscard]] const MemoryPlan& plan(int rank) const {
    return plans.at(static_cast<std::size_t>(class_of_rank.at(static_cast<std::size_t>(rank))));
  }
  /// True if some program contains transfers.
  [[nodiscard]] bool has_transfers() const;
};

/// The variants of the step of all programs together.
[[nodiscard]] StepVariants step_variants(const Compiled& compiled);

/// A block that stands for several alike ones in a row.
struct RepeatedBlock {
  int block = 0;
  int times = 1;
};

/// The pipeline stages of the model's blocks, one of which may be repeated. Runs only the phases that determine them.
[[nodiscard]] Stages find_stages(const CompileRequest& request, const RepeatedBlock& repeated = {});

/// The logical graph before differentiation, after rewrite_forward.
[[nodiscard]] Graph forward_graph(const CompileRequest& request);

/// Compiles every class of ranks, and verifies the result after each phase:
///   graph ─► placement ─► partition ─► parameters ─► order ─► passes ─► memory
/// `training`: the compiled training step of the same ranks. An evaluation pass shares its stages, its buckets and the
/// memory of its parameters. Two steps of generation share their caches too. \throws PluginError or ConfigurationError
/// for impossible requests. \throws VerificationError for defects.
[[nodiscard]] Compiled compile(const CompileRequest& request, const Compiled* training = nullptr);

}  // namespace strata::host
