#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "plan/plan_bounds.hpp"
#include "plan/plan_search.hpp"
#include "strata/graph.hpp"
#include "strata/model.hpp"

namespace strata::host {

/// The graph that a model builds, before any strategy rewrites it.
struct BuiltModel {
  Graph graph;
  AlikeBlocks alike;
};

/// Builds the graph of the request's model. `samples`: those of one micro-batch over all replicas.
[[nodiscard]] std::shared_ptr<const BuiltModel> build_model(const CompileRequest& request, std::int64_t samples);

/// A built model without the last of its alike blocks.
class ShortModel final : public Model {
 public:
  ShortModel(std::shared_ptr<const BuiltModel> built, int left_out) : built_(std::move(built)), left_out_(left_out) {}

  void build(GraphBuilder& builder) const override {
    builder.graph() = without_blocks(built_->graph, built_->alike, left_out_);
  }

 private:
  std::shared_ptr<const BuiltModel> built_;
  int left_out_;
};

/// Compiles plans without a device and simulates them on a cluster. Thread-safe.
class PlanEvaluator {
 public:
  /// The arguments outlive the evaluator.
  PlanEvaluator(const PlanSpace& space, PluginRegistry& registry, const Cluster& cluster)
      : space_(space), registry_(registry), cluster_(cluster) {}

  /// Lower bounds of evaluate() and estimate(), found in a fraction of their time. They come from the work on models of
  /// one and two alike blocks without stages, which all plans share that differ in their stages only. A plan without
  /// stages has bounds of zero, because its estimate is as quick. So has a cluster of different devices, whose stages
  /// do not share the work equally.
  [[nodiscard]] PlanBounds bounds(const PlanChoice& choice) const;
  /// The plan of the whole model. Of a step with many micro-batches two shorter ones are simulated. What a round of the
  /// pipeline costs more, every missing round costs too.
  [[nodiscard]] EvaluatedPlan evaluate(const PlanChoice& choice) const;
  /// The plan as two short models show it, which have one and two of the alike blocks in the chunk that has fewest.
  /// What a block more costs is added for each block that they lack. Memory is what any packing needs. The whole model
  /// is compiled if the short ones would not cost much less.
  [[nodiscard]] EvaluatedPlan estimate(const PlanChoice& choice) const;

  /// An evaluated plan with the boundaries of stages with which a step is fastest, if these save enough time.
  [[nodiscard]] EvaluatedPlan balance(const EvaluatedPlan& plan) const;

 private:
  /// The work of a rank on one and on two of the alike blocks.
  using BlockWork = std::pair<RankWork, RankWork>;

  /// Calls `call` with the request to compile the plan.
  template <class Call>
  void with_request(const PlanChoice& choice, const Call& call) const;
  template <class Predict>
  EvaluatedPlan evaluate(const PlanChoice& choice, const Predict& predict) const;
  [[nodiscard]] BlockWork block_work(const PlanChoice& choice, CompileRequest request,
                                     const std::shared_ptr<const BuiltModel>& built) const;
  [[nodiscard]] Stages stages_of(CompileRequest request, const std::shared_ptr<const BuiltModel>& built) const;
  [[nodiscard]] std::shared_ptr<const BuiltModel> built_model(const CompileRequest& request) const;
  [[nodiscard]] StepPrediction estimate(CompileRequest request, int stages) const;

  const PlanSpace& space_;
  PluginRegistry& registry_;
  const Cluster& cluster_;
  /// Protects the registry and the models.
  mutable std::mutex mutex_;
  /// By samples of one micro-batch over all replicas.
  mutable std::map<std::int64_t, std::shared_ptr<const BuiltModel>> built_;
  /// By choice, in which the number of stages stands for their proposal.
  mutable std::map<PlanChoice, BlockWork> work_;
};

}  // namespace strata::host
