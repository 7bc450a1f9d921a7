#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/continue_sequence.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "compiler/optimizer_groups.hpp"
#include "compiler/placement/bucket.hpp"
#include "compiler/placement/rank_class.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/program/step_variants.hpp"
#include "compiler/stack.hpp"
#include "strata/device.hpp"
#include "strata/model.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// The inputs of compile().
struct CompileRequest {
  std::shared_ptr<const Model> model;
  /// The names of model and device in errors.
  PluginOrigin model_origin{PluginKind::model, -1, "the model"};
  PluginOrigin device_origin{PluginKind::device, -1, "the device"};
  std::vector<NamedStrategy> strategies;
  const OpRegistry* registry = nullptr;
  GraphMode mode = GraphMode::training;
  /// Graph outputs to keep, such as "logits" for generation. Empty: keeps losses and their count.
  std::vector<std::string> outputs;
  DType float_type = DType::f32;
  /// Samples of a step over all replicas, and of one micro-batch on one replica.
  std::int64_t global_batch = 1;
  std::int64_t micro_batch = 1;
  /// Sizes that the model's options and the data fix, without "batch".
  DimSizes sizes;
  OptimizerSettings optimizer;
  /// For an evaluation pass beside a training step: the passes of one evaluation, which reads the moving averages of
  /// the weights. 0: it reads the weights.
  std::int64_t average_period = 0;
  /// Set for a step of generation, which computes new positions of texts only.
  std::optional<SequenceContinuation> continuation;
  /// The device that is asked for its kernels and their workspaces. Null: every op is supported, without a workspace.
  const Device* device = nullptr;
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
  /// By program: the ranks that run it, and the buckets that its parameters are dealt in.
  std::vector<RankClass> classes;
  std::vector<std::vector<Bucket>> dealt;
  /// By program: the buckets of a training step whose values have a moving average.
  std::vector<std::vector<Bucket>> averaged;
  /// Names of strategies without effect: their axes have one rank, and no hook changed anything.
  std::vector<std::string> idle_strategies;
  /// What strategies could not do for ops, with their names.
  std::set<std::string> notes;
  /// How each parameter is updated. Empty without training.
  AssignedGroups groups;
  /// The groups of parameters whose gradient norms the program reports.
  NormGroupIndex norm_groups;

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

/// The pipeline stages of the model's blocks. Runs only the phases that determine them.
[[nodiscard]] Stages find_stages(const CompileRequest& request);

/// The logical graph before differentiation, after rewrite_forward.
[[nodiscard]] Graph forward_graph(const CompileRequest& request);

/// Compiles every class of ranks, and verifies the result after each phase:
///   graph ─► placement ─► partition ─► parameters ─► order ─► passes ─► memory
/// `beside`: the compiled training step of the same ranks. An evaluation pass shares its stages, its buckets and the
/// memory of its parameters. Two steps of generation share their caches too. \throws PluginError or ConfigurationError
/// for impossible requests. \throws VerificationError for defects.
[[nodiscard]] Compiled compile(const CompileRequest& request, const Compiled* beside = nullptr);

}  // namespace strata::host
