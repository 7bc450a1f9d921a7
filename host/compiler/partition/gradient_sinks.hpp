#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/partition/partition.hpp"
#include "compiler/placement/bucket.hpp"
#include "compiler/placement/metrics.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// Accumulates the contributions to loss, count, metrics and gradients. Most go to accumulators that live for the whole
/// step. Buckets that are reduced in every micro-batch (ZeRO-2, ZeRO-3) have a flat gradient per task, which is
/// reduce-scattered to the ranks' pieces as soon as it is complete.
class GradientSinks {
 public:
  GradientSinks(const Graph& graph, const LayoutRules& rules, ProgramBuilder& builder, const std::vector<Bucket>& dealt,
                const std::vector<PlacedMetric>& metrics);

  /// The layout of contributions to `sink`. The host reads metrics as a whole.
  [[nodiscard]] Layout layout(const Sink& sink) const;
  /// The type in which contributions to `sink` are added up.
  [[nodiscard]] DType type_of(const Sink& sink) const;
  /// True if `task` has no contribution yet. The first contribution overwrites, and later ones add.
  [[nodiscard]] bool is_fresh(const Sink& sink, const AxisSet& partial, const TaskKey& task) const;
  /// The buffer for the next contribution, which is partial over `partial`.
  BufferId contribute(const Sink& sink, const AxisSet& partial, const TaskKey& task);

  /// Emits the reductions of the tasks' flat gradients, each after the last contribution to it. Called once, at the
  /// end.
  void reduce_task_gradients();
  /// Gives a gradient of zero to every parameter of this stage whose contributions are all made on other stages. The
  /// sum over the stages of a tied parameter needs one of each. After reduce_task_gradients().
  void add_missing_gradients();

  /// All accumulators. Called once, at the end.
  [[nodiscard]] Accumulators take() { return std::move(made_); }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
  };
  /// One flat gradient of one task.
  struct TaskGradient {
    BufferId flat = -1;
    std::map<std::string, BufferId> views;  // by parameter, for parameters with a contribution
  };
  using TaskGradientKey = std::tuple<TaskKey, std::size_t, AxisSet>;

  [[nodiscard]] const Place* dealt_place(const Sink& sink) const;
  BufferId accumulator(const Sink& sink, const AxisSet& partial);
  /// Makes `buffer` a part of the accumulator of all metrics.
  void place_metric(const std::string& name, BufferId buffer, const AxisSet& partial);
  PartialAccumulators& accumulators_of(const Sink& sink);
  /// `start` reduce-scatters a task's gradient to this rank's piece. `finish` adds the piece to the step's accumulator.
  /// It waits for `start`, so it is inserted later.
  struct Reduction {
    std::int64_t bytes = 0;  ///< of the task's gradient
    std::vector<Instruction> start = {};
    std::vector<Instruction> finish = {};
  };
  [[nodiscard]] Reduction reduction(const TaskGradientKey& key, const TaskGradient& gradient);
  static void insert(Task& task, std::map<std::ptrdiff_t, std::vector<Reduction>>& behind);
  void fill_gaps(const Bucket& bucket, const TaskGradient& gradient, std::vector<Instruction>& instructions);
  BufferId piece_accumulator(std::size_t bucket, const AxisSet& partial);

  const Graph& graph_;
  const LayoutRules& rules_;
  ProgramBuilder& builder_;
  const std::vector<Bucket>& dealt_;
  const std::vector<PlacedMetric>& placed_metrics_;
  std::map<std::string, Place> places_;
  std::map<TaskGradientKey, TaskGradient> task_gradients_;
  /// The accumulators of each metric, which are parts of those of all metrics.
  std::map<std::string, PartialAccumulators> metrics_;
  Accumulators made_;
};

}  // namespace strata::host
