#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/parameters/buckets.hpp"
#include "compiler/partition/accumulators.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/program/task_key.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// Where contributions to loss, count and gradients are added up. Most go to accumulators that last for the step; those
/// of buckets that are reduced in every micro-batch go to a flat gradient of the task, which is brought to the ranks'
/// pieces as soon as it is complete.
class GradientSinks {
 public:
  GradientSinks(const Graph& graph, const LayoutRules& rules, ProgramBuilder& builder, std::vector<Bucket>& dealt);

  /// True if the first contribution in `task` is yet to come: it is written, others are added.
  [[nodiscard]] bool is_fresh(const Sink& sink, const AxisSet& partial, const TaskKey& task) const;
  /// The buffer for a contribution that is partial over `partial`, which is about to be made.
  BufferId contribute(const Sink& sink, const AxisSet& partial, const TaskKey& task);

  /// Emits the reductions of the tasks' flat gradients, each behind the last contribution to it. Once, at the end.
  void reduce_task_gradients();

  [[nodiscard]] const GradientAccumulators& gradients() const { return gradients_; }
  [[nodiscard]] const PartialAccumulators& loss() const { return loss_; }
  [[nodiscard]] const PartialAccumulators& count() const { return count_; }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
  };
  /// One flat gradient of one task.
  struct TaskGradient {
    BufferId flat = -1;
    std::map<std::string, BufferId> views;  // by parameter; those that have a contribution
  };
  using TaskGradientKey = std::tuple<TaskKey, std::size_t, AxisSet>;

  [[nodiscard]] const Place* dealt_place(const Sink& sink) const;
  BufferId accumulator(const Sink& sink, const AxisSet& partial);
  PartialAccumulators& accumulators_of(const Sink& sink);
  [[nodiscard]] DType type_of(const Sink& sink) const;
  /// What brings a task's gradient to this rank's piece, and what adds that to the step's accumulator. The second waits
  /// for the first, so it comes later.
  struct Reduction {
    std::vector<Instruction> start;
    std::vector<Instruction> finish;
  };
  [[nodiscard]] Reduction reduction(const TaskGradientKey& key, const TaskGradient& gradient);
  static void insert(Task& task, std::map<std::ptrdiff_t, std::vector<Reduction>>& behind);
  void fill_gaps(const Bucket& bucket, const TaskGradient& gradient, std::vector<Instruction>& instructions);
  BufferId piece_accumulator(Bucket& bucket, const AxisSet& partial);

  const Graph& graph_;
  const LayoutRules& rules_;
  ProgramBuilder& builder_;
  std::vector<Bucket>& dealt_;
  std::map<std::string, Place> places_;
  std::map<TaskGradientKey, TaskGradient> task_gradients_;
  GradientAccumulators gradients_;
  PartialAccumulators loss_;
  PartialAccumulators count_;
};

}  // namespace strata::host
