#pragma once

#include <mutex>

#include "plan/plan_search.hpp"

namespace strata::host {

/// Compiles plans without a device and simulates them on a cluster. Thread-safe.
class PlanEvaluator {
 public:
  /// The arguments outlive the evaluator.
  PlanEvaluator(const PlanSpace& space, PluginRegistry& registry, const Cluster& cluster)
      : space_(space), registry_(registry), cluster_(cluster) {}

  /// `is_trial`: as CompileRequest::is_trial.
  [[nodiscard]] EvaluatedPlan evaluate(const PlanChoice& choice, bool is_trial) const;

 private:
  const PlanSpace& space_;
  PluginRegistry& registry_;
  const Cluster& cluster_;
  /// Protects the registry.
  mutable std::mutex mutex_;
};

}  // namespace strata::host
