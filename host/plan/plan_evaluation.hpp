#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "plan/plan_search.hpp"
#include "plan/short_model.hpp"

namespace strata::host {

/// Compiles plans without a device and simulates them on a cluster. Thread-safe.
class PlanEvaluator {
 public:
  /// The arguments outlive the evaluator.
  PlanEvaluator(const PlanSpace& space, PluginRegistry& registry, const Cluster& cluster)
      : space_(space), registry_(registry), cluster_(cluster) {}

  /// The plan of the whole model.
  [[nodiscard]] EvaluatedPlan evaluate(const PlanChoice& choice) const;
  /// The plan as two short models show it, which have one and two of the alike blocks in the chunk that has fewest.
  /// What a block more costs is added for each block that they lack. Memory is what any packing needs. The whole model
  /// is compiled if the short ones would not cost much less.
  [[nodiscard]] EvaluatedPlan estimate(const PlanChoice& choice) const;

 private:
  template <class Predict>
  EvaluatedPlan evaluate(const PlanChoice& choice, const Predict& predict) const;
  [[nodiscard]] std::shared_ptr<const BuiltModel> built_model(const CompileRequest& request) const;
  [[nodiscard]] StepPrediction estimate(CompileRequest request, bool has_stages) const;

  const PlanSpace& space_;
  PluginRegistry& registry_;
  const Cluster& cluster_;
  /// Protects the registry and the models.
  mutable std::mutex mutex_;
  /// By samples of one micro-batch over all replicas.
  mutable std::map<std::int64_t, std::shared_ptr<const BuiltModel>> built_;
};

}  // namespace strata::host
