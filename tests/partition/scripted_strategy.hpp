#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "strata/strategy.hpp"

namespace strata::testing {

/// Data parallelism over the axis "dp" of two ranks. A test may replace its other hooks.
class ScriptedStrategy final : public Strategy, public ReplicaHooks, public GradientHooks {
 public:
  /// An empty function keeps the hook's default.
  struct Hooks {
    std::function<std::vector<MeshAxis>()> axes = [] { return std::vector<MeshAxis>{{"dp", 2}}; };
    std::function<std::vector<Rule>()> rules = [] {
      return std::vector<Rule>{{"batch", "dp", 20, Distribution::block, {}}};
    };
    std::function<void(Graph&)> rewrite_forward = {};
    std::function<void(Graph&)> rewrite = {};
    std::function<std::optional<GradientBuckets>()> gradient_buckets = {};
    std::function<std::optional<ChunkedOverlap>()> chunked_overlap = {};
    std::function<std::optional<ParameterStorage>()> storage = {};
    std::function<std::optional<Placement>(const std::vector<BlockCost>&)> place = {};
    std::function<std::vector<ScheduledTask>()> schedule = {};
    std::function<Lowering(const Node&)> lower = {};
    std::function<Conversion(const PlannedCollective&)> convert = {};
    std::function<std::vector<Axis>()> unsynchronized_axes = {};
    std::function<int()> fragment = {};
    std::function<void(BucketContext&)> work_on_bucket = {};
    std::function<std::vector<Axis>()> self_reduced_axes = {};
    std::function<bool()> wants_own_bucket = {};
    std::function<void(ReductionContext&)> reduce_gradient = {};
    std::function<void(DefinedGradient&)> define_gradient = {};
  };

  explicit ScriptedStrategy(Hooks hooks) : hooks_(std::move(hooks)) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return hooks_.axes(); }
  [[nodiscard]] std::vector<Rule> rules() const override { return hooks_.rules(); }
  void rewrite_forward(Graph& graph, const OpRegistry& /*registry*/) const override {
    if (hooks_.rewrite_forward) hooks_.rewrite_forward(graph);
  }
  void rewrite(Graph& graph, const OpRegistry& /*registry*/) const override {
    if (hooks_.rewrite) hooks_.rewrite(graph);
  }
  [[nodiscard]] std::optional<GradientBuckets> gradient_buckets() const override {
    return hooks_.gradient_buckets ? hooks_.gradient_buckets() : Strategy::gradient_buckets();
  }
  [[nodiscard]] std::optional<ChunkedOverlap> chunked_overlap() const override {
    return hooks_.chunked_overlap ? hooks_.chunked_overlap() : Strategy::chunked_overlap();
  }
  [[nodiscard]] std::optional<ParameterStorage> storage(const ParameterDescription& parameter) const override {
    return hooks_.storage ? hooks_.storage() : Strategy::storage(parameter);
  }
  [[nodiscard]] std::optional<Placement> place(const std::vector<BlockCost>& blocks) const override {
    return hooks_.place ? hooks_.place(blocks) : Strategy::place(blocks);
  }
  [[nodiscard]] std::vector<ScheduledTask> schedule(int stage, int micro_batches) const override {
    return hooks_.schedule ? hooks_.schedule() : Strategy::schedule(stage, micro_batches);
  }
  [[nodiscard]] Lowering lower(NodeToLower& node) const override {
    return hooks_.lower ? hooks_.lower(node.node()) : Strategy::lower(node);
  }
  [[nodiscard]] Conversion convert(const PlannedCollective& collective) const override {
    return hooks_.convert ? hooks_.convert(collective) : Strategy::convert(collective);
  }
  [[nodiscard]] std::vector<Axis> unsynchronized_axes() const override {
    return hooks_.unsynchronized_axes ? hooks_.unsynchronized_axes() : std::vector<Axis>();
  }
  [[nodiscard]] int fragment(const ParameterDescription& parameter) const override {
    return hooks_.fragment ? hooks_.fragment() : ReplicaHooks::fragment(parameter);
  }
  void work_on_bucket(BucketContext& context) const override {
    if (hooks_.work_on_bucket) hooks_.work_on_bucket(context);
  }
  void define(DefinedReplicas& /*replicas*/) const override {}
  [[nodiscard]] std::vector<Axis> self_reduced_axes() const override {
    return hooks_.self_reduced_axes ? hooks_.self_reduced_axes() : std::vector<Axis>();
  }
  [[nodiscard]] bool wants_own_bucket(const ParameterDescription& parameter) const override {
    return hooks_.wants_own_bucket ? hooks_.wants_own_bucket() : GradientHooks::wants_own_bucket(parameter);
  }
  void reduce_gradient(ReductionContext& context) const override {
    hooks_.reduce_gradient ? hooks_.reduce_gradient(context) : GradientHooks::reduce_gradient(context);
  }
  void define_gradient(DefinedGradient& gradient) const override {
    hooks_.define_gradient ? hooks_.define_gradient(gradient) : GradientHooks::define_gradient(gradient);
  }

 private:
  Hooks hooks_;
};

}  // namespace strata::testing
