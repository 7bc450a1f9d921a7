#include "compiler/parameters/step_end.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "compiler/parameters/strategy_work.hpp"
#include "compiler/parameters/update.hpp"
#include "strata/bucket_work.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/internal/group_runs.hpp"

namespace strata::host {
namespace {

/// Emits one end of step. All scalars are f64. Collectives over the pipeline axis come in an order that is the same on
/// all stages: loss, count, metrics, tied gradients by parameter, norm.
class StepEnd {
 public:
  StepEnd(const PlacedModel& model, const Accumulators& accumulators, const std::vector<TrainedBucket>& buckets,
          const RankClass& rank_class, ProgramBuilder& builder)
      : model_(model),
        accumulators_(accumulators),
        buckets_(buckets),
        rank_class_(rank_class),
        builder_(builder),
        unsynchronized_(in_mesh_order(builder.mesh(), model.is_training() ? model.stack.unsynchronized : AxisSet{})) {}

  /// Completes loss, count and metrics. \return the count.
  BufferId complete_scalars() {
    complete_scalar("loss", accumulators_.loss);
    const BufferId count = complete_scalar("count", accumulators_.count);
    if (!model_.metrics.empty()) complete_metrics();
    return count;
  }

  void end_training() {
    gather_for_step(builder_, buckets_);
    for (const TrainedBucket& each : buckets_) {
      for (const auto& [partial, gradient] : each.gradients) zero(gradient);
    }
    if (!model_.stack.buckets.overlap) {
      for (const TrainedBucket& each : buckets_) append(each.completion.instructions);
    }
    const BufferId count = complete_scalars();
    if (rank_class_.updates) {
      update(count);
    } else {
      await_reports();
    }
    broadcast_updates(builder_, buckets_, {"grad_norm", kGroupSquaresReport, kGuardVerdict}, epilogue());
  }

 private:
  void update(BufferId count) {
    for (const TrainedBucket& each : buckets_) {
      const std::vector<BufferId>& completed = each.completion.completed;
      if (!completed.empty()) sum(each.bucket.name + ".gradient", completed);
    }
    sum_tied_gradients();
    ReducedGradients reduced;
    BufferId scale = -1;
    if (model_.stack.reducer >= 0) {
      const BufferId unit = inverse("gradient unit", "no norm", count);
      scale = scalar("gradient scale");
      reduced = reduce_gradients(model_, buckets_, {unit, scale}, builder_);
      append(std::move(reduced.before));
    }
    const BufferId squares = squared_norm();
    if (reports_groups()) report_group_squares();
    if (scale < 0) scale = scalar("gradient scale");
    clip(squares, count, scale);
    if (optimizer().guard != StepGuard::none) guard(scale);
    append(std::move(reduced.after));
    if (optimizer().is_update_outside) {
      report("gradient_scale", scale);
    } else {
      emit_updates(model_, buckets_, scale, builder_);
    }
  }

  /// On a rank that does not update: the reports that the updating rank sends.
  void await_reports() {
    report("grad_norm", scalar("gradient norm"));
    if (reports_groups()) report(kGroupSquaresReport, group_buffer());
    if (optimizer().guard != StepGuard::none) report(kGuardVerdict, scalar(kGuardVerdict));
  }

  // --- sums

  /// Completes the accumulators of loss or count and reports the total. \return the total's buffer, for one replica.
  BufferId complete_scalar(const std::string& name, const PartialAccumulators& accumulators) {
    const BufferId total = complete(name, accumulators, [&] { return scalar(name); });
    report(name, unsynchronized_.empty() ? total : over_replicas(total, 1, name));
    return total;
  }

  void complete_metrics() {
    const BufferId total = complete(kMetricsReport, accumulators_.metrics, [&] {
      return builder_.add_flat(kMetricsReport, BufferKind::activation, DType::f64, metric_elements(model_.metrics));
    });
    if (!unsynchronized_.empty()) all_reduce(total, unsynchronized_, "metrics of all replicas");
    report(kMetricsReport, total);
  }

  /// Completes accumulators, each over its own partial axes, and sums them, over stages too. `make_buffer()` adds the
  /// buffer of a stage without any. \return the total's buffer, for one replica.
  template <class MakeBuffer>
  BufferId complete(const std::string& name, const PartialAccumulators& accumulators, const MakeBuffer& make_buffer) {
    std::vector<BufferId> parts;
    for (const auto& [partial, buffer] : accumulators) {
      parts.push_back(buffer);
      zero(buffer);
      if (!partial.empty()) all_reduce(buffer, in_mesh_order(builder_.mesh(), partial), name);
    }
    // Other stages compute it. This one contributes 0 to the sum over stages.
    if (parts.empty()) parts.push_back(zeroed(make_buffer(), "no " + name + " on this stage"));
    const BufferId total = sum(name, parts);
    over_stages(total, name);
    if (model_.is_training() && !model_.stack.reduced.empty()) {
      all_reduce(total, model_.stack.reduced, name + " of all workers");
    }
    return total;
  }

  /// Sums tied gradients over their stages. The order is that of the parameters, which all stages share.
  void sum_tied_gradients() {
    std::vector<const TrainedBucket*> tied;
    for (const TrainedBucket& each : buckets_) {
      if (each.bucket.stages.size() > 1 && !each.completion.completed.empty()) tied.push_back(&each);
    }
    std::sort(tied.begin(), tied.end(), [](const TrainedBucket* a, const TrainedBucket* b) {
      return a->bucket.parameters.front() < b->bucket.parameters.front();
    });
    for (const TrainedBucket* each : tied) {
      // Stages number their buckets differently, so the name is that of the only parameter.
      const std::string& name = builder_.program().parameters[each->bucket.parameters.front()].name;
      all_reduce(each->completion.completed.front(), {model_.stages.axis}, "tied gradient of " + name);
      const std::vector<int>& stages = each->bucket.stages;
      if (static_cast<int>(stages.size()) < model_.stages.count) {
        epilogue().back().as<Collective>()->members = stages;
      }
    }
  }

  /// Sums squares of all gradients over the axes along which ranks hold other elements, and over stages. Each element
  /// counts once: a tied parameter counts on its first stage. `make_buffer(axes)` adds a buffer for sums, and
  /// `squares(bucket, buffer)` is the instruction that writes those of a bucket.
  template <class MakeBuffer, class Squares>
  BufferId sum_squares(const std::string& name, const std::string& none, const MakeBuffer& make_buffer,
                       const Squares& squares) {
    std::map<AxisSet, BufferId> sums;  // by axes
    for (const TrainedBucket& each : buckets_) {
      if (each.bucket.stages.front() != rank_class_.stage || is_running_average(each.bucket)) continue;
      const auto [place, added] = sums.try_emplace(each.bucket.piece_axes(), -1);
      if (added) place->second = make_buffer(place->first);
      push(squares(each, place->second));
      epilogue().back().as<Compute>()->accumulate = !added;
    }
    std::vector<BufferId> parts;
    for (const auto& [axes, buffer] : sums) {
      parts.push_back(buffer);
      if (!axes.empty()) all_reduce(buffer, in_mesh_order(builder_.mesh(), axes), name);
    }
    if (parts.empty()) parts.push_back(zeroed(make_buffer(AxisSet{}), none));
    const BufferId total = sum(name, parts);
    over_stages(total, name);
    return total;
  }

  BufferId squared_norm() {
    return sum_squares(
        "gradient norm", "no gradients of its own on this stage",
        [&](const AxisSet& axes) {
          return scalar("squared norm " + join({axes.begin(), axes.end()}, "+"));
        },
        [](const TrainedBucket& each, BufferId squares) {
          return flat_op(ops::kSumOfSquares, "gradient norm", {each.completion.completed.front()}, {squares});
        });
  }

  // --- groups of parameters

  [[nodiscard]] bool reports_groups() const { return !model_.norm_groups.names.empty(); }
  [[nodiscard]] std::int64_t group_count() const { return static_cast<std::int64_t>(model_.norm_groups.names.size()); }

  BufferId group_buffer() {
    return builder_.add_flat(kGroupSquaresReport, BufferKind::activation, DType::f64, group_count());
  }

  void report_group_squares() {
    const BufferId total = sum_squares(
        kGroupSquaresReport, "no gradients of groups on this stage", [&](const AxisSet&) { return group_buffer(); },
        [&](const TrainedBucket& each, BufferId squares) { return group_squares(each, squares); });
    if (!unsynchronized_.empty()) all_reduce(total, unsynchronized_, "group squares of all replicas");
    report(kGroupSquaresReport, total);
  }

  /// The sums of squares of the groups in this rank's piece of a bucket.
  Instruction group_squares(const TrainedBucket& trained, BufferId squares) {
    const Bucket& bucket = trained.bucket;
    std::vector<GroupEnd> ends;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::string& name = builder_.program().parameters[bucket.parameters[i]].name;
      const std::int64_t group = model_.norm_groups.of_parameter.at(name);
      if (ends.empty() || ends.back().group != group) ends.push_back({0, group});
      ends.back().end = i + 1 < bucket.offsets.size() ? bucket.offsets[i + 1] : bucket.elements;
    }
    Instruction instruction = flat_op(ops::kGroupSquares, kGroupSquaresReport, {trained.completion.completed.front()},
                                      {squares}, group_attributes(ends, group_count()));
    instruction.as<Compute>()->iteration = {piece_iteration(builder_.program(), bucket).front()};
    return instruction;
  }

  // --- scale of the gradients

  /// Emits clipping, which writes the factor of every gradient to `scale`.
  void clip(BufferId squares, BufferId count, BufferId scale) {
    const BufferId norm = scalar("gradient norm");
    push(flat_op(ops::kGradientScale, "clip", {squares, count}, {scale, norm},
                 {{"clip", optimizer().clip}, {"skips_empty", true}}));
    if (unsynchronized_.empty()) {
      report("grad_norm", norm);
      return;
    }
    const BufferId mean = over_replicas(norm, 1.0 / builder_.mesh().size(unsynchronized_), "gradient norm");
    report("grad_norm", mean);
    // If the norm of any replica is not finite, the scale of all becomes NaN.
    const bool may_skip = model_.graph.loss_scaling.has_value() || optimizer().guard != StepGuard::none;
    if (may_skip) push(weighted_sum("skip together", {{1, scale}, {0, mean}}, scale));
  }

  /// Emits the guard, after loss, count and norm are complete. It consists of ops that every device has. Two of their
  /// properties make it work: 0 · NaN is NaN, and gradient_scale(x, count) gives √x / count, which is NaN if x is
  /// negative.
  void guard(BufferId scale) {
    const BufferId verdict = scalar("guard");
    report(kGuardVerdict, verdict);
    const bool has_limits = optimizer().guard == StepGuard::limits;
    const BufferId loss = has_limits ? root("room of the loss", room_of_loss()) : reported("loss");
    const BufferId norm = has_limits ? root("room of the norm", room_of_norm()) : reported("grad_norm");
    push(weighted_sum("guard", {{0, loss}, {0, norm}}, verdict));
    push(weighted_sum("guarded gradient scale", {{1, scale}, {0, verdict}}, scale));
  }

  /// The largest accepted sum of losses minus the sum, which has `count` times the mean.
  BufferId room_of_loss() {
    const BufferId share = inverse("share of a loss", "no squares", reported("count"));
    const BufferId largest = quotient_of_root("largest loss", limit(kSquaredLossLimit), share);
    return difference("room of the loss", largest, reported("loss"));
  }

  BufferId room_of_norm() { return difference("room of the norm", limit(kNormLimit), reported("grad_norm")); }

  BufferId root(const std::string& name, BufferId room) {
    return quotient_of_root("root of the " + name, room, reported("count"));
  }

  /// √x / y
  BufferId quotient_of_root(const std::string& name, BufferId x, BufferId y) {
    const BufferId result = scalar(name);
    push(flat_op(ops::kGradientScale, name, {x, y}, {scalar(name + " without use"), result}, {{"clip", 0.0}}));
    return result;
  }

  BufferId difference(const std::string& name, BufferId x, BufferId y) {
    const BufferId result = scalar(name);
    push(weighted_sum(name, {{1, x}, {-1, y}}, result));
    return result;
  }

  /// A scalar that the host writes.
  BufferId limit(const char* name) {
    const BufferId buffer = scalar(name);
    report(name, buffer);
    return buffer;
  }

  /// 1 / count, the scale of gradients whose norm is not clipped. For a loss scale, also divided by that.
  BufferId inverse(const std::string& name, const std::string& zero_name, BufferId count) {
    const BufferId zero = zeroed(scalar(zero_name), zero_name);
    const BufferId result = scalar(name);
    push(flat_op(ops::kGradientScale, name, {zero, count}, {result, scalar(name + " without use")}, {{"clip", 0.0}}));
    return result;
  }

  // --- helpers

  [[nodiscard]] const OptimizerSettings& optimizer() const { return model_.request.optimizer; }
  [[nodiscard]] std::vector<Instruction>& epilogue() { return builder_.instructions(Task::Kind::epilogue); }
  void push(Instruction instruction) { epilogue().push_back(std::move(instruction)); }
  void append(std::vector<Instruction> instructions) {
    std::move(instructions.begin(), instructions.end(), std::back_inserter(epilogue()));
  }

  void report(const std::string& name, BufferId buffer) {
    builder_.buffer(buffer).persistent = true;
    builder_.program().reports[name] = buffer;
  }
  [[nodiscard]] BufferId reported(const char* name) const { return builder_.program().reports.at(name); }

  BufferId scalar(const std::string& name) {
    return builder_.add_buffer(name, BufferKind::activation, DType::f64, {}, {});
  }

  BufferId zeroed(BufferId buffer, const std::string& name) {
    push(flat_op(ops::kFillZero, name, {}, {buffer}));
    return buffer;
  }

  /// Zeroes an accumulator at the beginning of the step.
  void zero(BufferId buffer) {
    builder_.instructions(Task::Kind::prologue)
        .push_back(flat_op(ops::kFillZero, "zero " + builder_.buffer(buffer).name, {}, {buffer}));
  }

  void all_reduce(BufferId buffer, std::vector<Axis> axes, const std::string& label) {
    push(builder_.all_reduce(buffer, std::move(axes), std::nullopt, label));
  }

  void over_stages(BufferId buffer, const std::string& name) {
    if (model_.stages.count > 1) all_reduce(buffer, {model_.stages.axis}, name + " of all stages");
  }

  /// The sum over all replicas of `factor` times a scalar, in a buffer of its own.
  BufferId over_replicas(BufferId part, double factor, const std::string& name) {
    const BufferId all = scalar(name + " of all replicas");
    push(weighted_sum(name + " of a replica", {{factor, part}}, all));
    all_reduce(all, unsynchronized_, name + " of all replicas");
    return all;
  }

  /// Sums several buffers of one shape and type into the first one.
  BufferId sum(const std::string& name, const std::vector<BufferId>& parts) {
    for (std::size_t i = 1; i < parts.size(); ++i) push(flat_op(ops::kAccumulate, name, {parts[i]}, {parts[0]}));
    return parts.front();
  }

  const PlacedModel& model_;
  const Accumulators& accumulators_;
  const std::vector<TrainedBucket>& buckets_;
  const RankClass& rank_class_;
  ProgramBuilder& builder_;
  /// Loss, count and norm are those of one replica along these axes. Their reports are of all replicas.
  std::vector<Axis> unsynchronized_;
};

}  // namespace

void emit_training_step_end(const PlacedModel& model, const Accumulators& accumulators,
                            const std::vector<TrainedBucket>& buckets, const RankClass& rank_class,
                            ProgramBuilder& builder) {
  StepEnd(model, accumulators, buckets, rank_class, builder).end_training();
}

void emit_evaluation_end(const PlacedModel& model, const Accumulators& accumulators, ProgramBuilder& builder) {
  StepEnd(model, accumulators, {}, {}, builder).complete_scalars();
}

}  // namespace strata::host
