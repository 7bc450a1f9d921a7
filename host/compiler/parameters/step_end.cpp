#include "compiler/parameters/step_end.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "compiler/parameters/gradient_reduction.hpp"
#include "compiler/parameters/step_guard.hpp"
#include "compiler/parameters/update.hpp"
#include "compiler/placement/bucket_collectives.hpp"
#include "strata/bucket_work.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/internal/group_runs.hpp"

namespace strata::host {
namespace {

/// Emits one end of step. All scalars are f64. Collectives over the pipeline axis come in an order that is the same on
/// all stages: loss, count, tied gradients by parameter, norm.
class StepEnd {
 public:
  StepEnd(ProgramBuilder& builder, const StepEndRequest& request) : builder_(builder), request_(request) {}

  void zero_gradients() {
    for (const TrainedBucket& each : request_.buckets) {
      for (const auto& [partial, gradient] : each.gradients) zero(gradient);
    }
  }

  void complete_gradients() {
    for (const TrainedBucket& each : request_.buckets) {
      for (const Instruction& instruction : each.completion.instructions) push(instruction);
    }
  }

  /// Completes the accumulators of loss or count, each over its own partial axes, sums them and reports the total.
  /// \return the total's buffer, for one replica.
  BufferId complete_scalar(const std::string& name, const PartialAccumulators& accumulators) {
    std::vector<BufferId> parts;
    for (const auto& [partial, buffer] : accumulators) {
      parts.push_back(buffer);
      zero(buffer);
      if (!partial.empty()) push(all_reduce(buffer, in_mesh_order(builder_.mesh(), partial), name));
    }
    if (parts.empty()) {
      // Another stage computes the loss. This one contributes 0 to the sum over stages.
      parts.push_back(scalar(name));
      push(flat_op(ops::kFillZero, "no " + name + " on this stage", {}, {parts.front()}));
    }
    const BufferId total = sum(name, parts);
    over_stages(total, name);
    if (!request_.reduced.empty()) push(all_reduce(total, request_.reduced, name + " of all workers"));
    report(name, request_.unsynchronized.empty() ? total : over_replicas(total, 1, name));
    return total;
  }

  void sum_contributions() {
    for (const TrainedBucket& each : request_.buckets) {
      const std::vector<BufferId>& completed = each.completion.completed;
      if (!completed.empty()) sum(each.bucket.name + ".gradient", completed);
    }
  }

  /// Sums tied gradients over their stages. The order is that of the parameters, which all stages share.
  void sum_tied_gradients() {
    std::vector<const TrainedBucket*> tied;
    for (const TrainedBucket& each : request_.buckets) {
      if (each.bucket.stages.size() > 1 && !each.completion.completed.empty()) tied.push_back(&each);
    }
    std::sort(tied.begin(), tied.end(), [](const TrainedBucket* a, const TrainedBucket* b) {
      return a->bucket.parameters.front() < b->bucket.parameters.front();
    });
    for (const TrainedBucket* each : tied) {
      const std::vector<int>& stages = each->bucket.stages;
      Instruction instruction = all_reduce(each->completion.completed.front(), {request_.stages.axis},
                                           "tied gradient of " + name_of(each->bucket));
      if (static_cast<int>(stages.size()) < request_.stages.count) instruction.as<Collective>()->members = stages;
      push(std::move(instruction));
    }
  }

  /// Sum of squares of all gradients. Each element counts once: a tied parameter counts on its first stage.
  BufferId squared_norm() {
    std::map<AxisSet, BufferId> by_axes;
    for (const TrainedBucket& each : request_.buckets) {
      const Bucket& bucket = each.bucket;
      if (bucket.stages.front() != request_.rank_class.stage) continue;
      const AxisSet axes = bucket.piece_axes();
      const auto [place, added] = by_axes.try_emplace(axes, -1);
      if (added) place->second = scalar("squared norm " + join({axes.begin(), axes.end()}, "+"));
      Instruction squares =
          flat_op(ops::kSumOfSquares, "gradient norm", {each.completion.completed.front()}, {place->second});
      squares.as<Compute>()->accumulate = !added;
      push(std::move(squares));
    }
    std::vector<BufferId> parts;
    for (const auto& [axes, buffer] : by_axes) {
      parts.push_back(buffer);
      if (!axes.empty()) push(all_reduce(buffer, in_mesh_order(builder_.mesh(), axes), "gradient norm"));
    }
    if (parts.empty()) {
      parts.push_back(scalar("squared norm"));
      push(flat_op(ops::kFillZero, "no gradients of its own on this stage", {}, {parts.front()}));
    }
    const BufferId total = sum("gradient norm", parts);
    over_stages(total, "gradient norm");
    return total;
  }

  /// Reports the sums of squares of each group of parameters. Each element counts once, as in squared_norm().
  void report_group_squares() {
    if (!reports_groups()) return;
    std::map<AxisSet, BufferId> by_axes;
    for (const TrainedBucket& each : request_.buckets) {
      const Bucket& bucket = each.bucket;
      if (bucket.stages.front() != request_.rank_class.stage) continue;
      const auto [place, added] = by_axes.try_emplace(bucket.piece_axes(), -1);
      if (added) place->second = group_buffer();
      push(group_squares(each, place->second, !added));
    }
    std::vector<BufferId> parts;
    for (const auto& [axes, buffer] : by_axes) {
      parts.push_back(buffer);
      if (!axes.empty()) push(all_reduce(buffer, in_mesh_order(builder_.mesh(), axes), kGroupSquaresReport));
    }
    if (parts.empty()) {
      parts.push_back(group_buffer());
      push(flat_op(ops::kFillZero, "no gradients of groups on this stage", {}, {parts.front()}));
    }
    const BufferId total = sum(kGroupSquaresReport, parts);
    over_stages(total, kGroupSquaresReport);
    if (!request_.unsynchronized.empty()) {
      push(all_reduce(total, in_mesh_order(builder_.mesh(), request_.unsynchronized), "group squares of all replicas"));
    }
    report(kGroupSquaresReport, total);
  }

  /// On a rank that does not update: the report that the updating rank sends.
  void await_group_squares() {
    if (reports_groups()) report(kGroupSquaresReport, group_buffer());
  }

  /// The factor that makes a gradient its share of the mean over all tokens: gradient_scale without clipping.
  BufferId unit(BufferId count) {
    const BufferId zero = scalar("no norm");
    const BufferId unit = scalar("gradient unit");
    push(flat_op(ops::kFillZero, "no norm", {}, {zero}));
    push(flat_op(ops::kGradientScale, "gradient unit", {zero, count}, {unit, scalar("no norm of the unit")},
                 {{"clip", 0.0}}));
    return unit;
  }

  /// Emits clipping, which writes the factor of every gradient to `scale`.
  void clip(BufferId squares, BufferId count, double largest_norm, BufferId scale) {
    const BufferId norm = scalar("gradient norm");
    push(flat_op(ops::kGradientScale, "clip", {squares, count}, {scale, norm},
                 {{"clip", largest_norm}, {"skips_empty", true}}));
    if (request_.unsynchronized.empty()) {
      report("grad_norm", norm);
      return;
    }
    const int replicas = builder_.mesh().size(in_mesh_order(builder_.mesh(), request_.unsynchronized));
    const BufferId mean = over_replicas(norm, 1.0 / replicas, "gradient norm");
    report("grad_norm", mean);
    // If the norm of any replica is not finite, the scale of all becomes NaN.
    if (request_.may_skip) push(weighted_sum("skip together", {{1, scale}, {0, mean}}, scale));
  }

  void report(const std::string& name, BufferId buffer) {
    builder_.buffer(buffer).persistent = true;
    builder_.program().reports[name] = buffer;
  }

  BufferId scalar(const std::string& name) {
    return builder_.add_buffer(name, BufferKind::activation, DType::f64, {}, {});
  }

  void append(std::vector<Instruction> instructions) {
    std::move(instructions.begin(), instructions.end(), std::back_inserter(epilogue()));
  }

  std::vector<Instruction>& epilogue() { return builder_.task(Task::Kind::epilogue).instructions; }

 private:
  void push(Instruction instruction) { epilogue().push_back(std::move(instruction)); }

  void zero(BufferId buffer) {
    builder_.task(Task::Kind::prologue)
        .instructions.push_back(flat_op(ops::kFillZero, "zero " + builder_.buffer(buffer).name, {}, {buffer}));
  }

  [[nodiscard]] bool reports_groups() const {
    return request_.norm_groups != nullptr && !request_.norm_groups->names.empty();
  }

  BufferId group_buffer() {
    return builder_.add_flat(kGroupSquaresReport, BufferKind::activation, DType::f64,
                             static_cast<std::int64_t>(request_.norm_groups->names.size()));
  }

  /// The sums of squares of the groups in this rank's piece of a bucket.
  Instruction group_squares(const TrainedBucket& trained, BufferId squares, bool accumulate) {
    const Bucket& bucket = trained.bucket;
    std::vector<GroupEnd> ends;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::string& name = builder_.program().parameters[bucket.parameters[i]].name;
      const std::int64_t group = request_.norm_groups->of_parameter.at(name);
      if (ends.empty() || ends.back().group != group) ends.push_back({0, group});
      ends.back().end = i + 1 < bucket.offsets.size() ? bucket.offsets[i + 1] : bucket.elements;
    }
    const auto count = static_cast<std::int64_t>(request_.norm_groups->names.size());
    Instruction instruction = flat_op(ops::kGroupSquares, kGroupSquaresReport, {trained.completion.completed.front()},
                                      {squares}, group_attributes(ends, count));
    auto* compute = instruction.as<Compute>();
    compute->iteration = {piece_iteration(builder_.program(), bucket).front()};
    compute->accumulate = accumulate;
    return instruction;
  }

  Instruction all_reduce(BufferId buffer, std::vector<Axis> axes, const std::string& label) {
    return builder_.all_reduce(buffer, std::move(axes), std::nullopt, label);
  }

  /// Name of the only parameter of a tied bucket. Stages number their buckets differently, so the bucket's name
  /// differs.
  [[nodiscard]] const std::string& name_of(const Bucket& bucket) const {
    return builder_.program().parameters[bucket.parameters.front()].name;
  }

  void over_stages(BufferId buffer, const std::string& name) {
    if (request_.stages.count > 1) push(all_reduce(buffer, {request_.stages.axis}, name + " of all stages"));
  }

  /// The sum over all replicas of `factor` times a scalar, in a buffer of its own.
  BufferId over_replicas(BufferId of_replica, double factor, const std::string& name) {
    const BufferId all = scalar(name + " of all replicas");
    push(weighted_sum(name + " of a replica", {{factor, of_replica}}, all));
    push(all_reduce(all, in_mesh_order(builder_.mesh(), request_.unsynchronized), name + " of all replicas"));
    return all;
  }

  /// Sums several buffers of one shape and type into the first one.
  BufferId sum(const std::string& name, const std::vector<BufferId>& parts) {
    for (std::size_t i = 1; i < parts.size(); ++i) push(flat_op(ops::kAccumulate, name, {parts[i]}, {parts[0]}));
    return parts.front();
  }

  ProgramBuilder& builder_;
  const StepEndRequest& request_;
};

}  // namespace

void emit_training_step_end(ProgramBuilder& builder, const StepEndRequest& request, const UpdateRequest& update) {
  StepEnd end(builder, request);
  end.zero_gradients();
  if (!request.gradients_are_complete) end.complete_gradients();
  end.complete_scalar("loss", request.partitioned.loss);
  const BufferId count = end.complete_scalar("count", request.partitioned.count);
  if (request.rank_class.updates) {
    end.sum_contributions();
    end.sum_tied_gradients();
    ReducedGradients reduced;
    if (update.stack.reducer >= 0) {
      const GradientScalars scalars{end.unit(count), end.scalar("gradient scale")};
      reduced = reduce_gradients(builder, request.buckets, scalars, update);
      end.append(std::move(reduced.before));
    }
    const BufferId squares = end.squared_norm();
    end.report_group_squares();
    const BufferId scale = reduced.scale >= 0 ? reduced.scale : end.scalar("gradient scale");
    end.clip(squares, count, update.optimizer.clip, scale);
    emit_step_guard(builder, update.optimizer.guard, scale, end.epilogue());
    end.append(std::move(reduced.after));
    if (update.optimizer.is_update_outside) {
      end.report("gradient_scale", scale);
    } else {
      emit_updates(builder, request.buckets, scale, update, end.epilogue());
    }
  } else {
    end.report("grad_norm", end.scalar("gradient norm"));
    end.await_group_squares();
    if (update.optimizer.guard != StepGuard::none) end.report(kGuardVerdict, end.scalar(kGuardVerdict));
  }
  broadcast_updates(builder, request.buckets, {"grad_norm", kGroupSquaresReport, kGuardVerdict}, end.epilogue());
}

void emit_evaluation_end(ProgramBuilder& builder, const PartitionResult& partitioned, const Stages& stages) {
  const StepEndRequest request{partitioned, {}, stages, {}};
  StepEnd end(builder, request);
  end.complete_scalar("loss", partitioned.loss);
  end.complete_scalar("count", partitioned.count);
}

}  // namespace strata::host
