#include "compiler/parameters/step_end.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/parameters/bucket_collectives.hpp"
#include "compiler/parameters/update.hpp"

namespace strata::host {
namespace {

/// Emits one end of step; every scalar is f64. Collectives over the axis of the stages come in an order that all stages
/// share: loss, count, tied gradients by parameter, norm.
class StepEnd {
 public:
  StepEnd(ProgramBuilder& builder, const StepEndRequest& request) : builder_(builder), request_(request) {}

  void zero_gradients() {
    for (const Bucket& bucket : request_.buckets) {
      for (const auto& [partial, gradient] : bucket.gradients) zero(gradient);
    }
  }

  void complete_gradients() {
    for (const Bucket& bucket : request_.buckets) {
      for (const Instruction& instruction : bucket.completion) push(instruction);
    }
  }

  /// Adds up the accumulators of loss or count, each completed over its own axes, and reports the total. \return its
  /// buffer.
  BufferId complete_scalar(const std::string& name, const PartialAccumulators& accumulators) {
    std::vector<BufferId> parts;
    for (const auto& [partial, buffer] : accumulators) {
      parts.push_back(buffer);
      zero(buffer);
      if (!partial.empty()) push(all_reduce(buffer, in_mesh_order(builder_.program().mesh, partial), name));
    }
    if (parts.empty()) {
      // The loss is another stage's.
      parts.push_back(scalar(name));
      push(program_op("fill_zero", "no " + name + " on this stage", {}, {parts.front()}));
    }
    const BufferId total = sum(name, parts);
    over_stages(total, name);
    report(name, total);
    return total;
  }

  void sum_contributions() {
    for (const Bucket& bucket : request_.buckets) {
      if (!bucket.completed.empty()) sum(bucket.name + ".gradient", bucket.completed);
    }
  }

  /// In the order of the parameters, which is the same on all stages.
  void sum_tied_gradients() {
    std::vector<const Bucket*> tied;
    for (const Bucket& bucket : request_.buckets) {
      if (bucket.stages.size() > 1 && !bucket.completed.empty()) tied.push_back(&bucket);
    }
    std::sort(tied.begin(), tied.end(),
              [](const Bucket* a, const Bucket* b) { return a->parameters.front() < b->parameters.front(); });
    for (const Bucket* bucket : tied) {
      Instruction instruction =
          all_reduce(bucket->completed.front(), {request_.stages.axis}, "tied gradient of " + name_of(*bucket));
      if (static_cast<int>(bucket->stages.size()) < request_.stages.count) instruction.members = bucket->stages;
      push(std::move(instruction));
    }
  }

  /// Sum over all parameters of their squared gradient, each element once: a tied one counts on its first stage.
  BufferId squared_norm() {
    std::map<AxisSet, BufferId> by_axes;
    for (const Bucket& bucket : request_.buckets) {
      if (bucket.stages.front() != request_.rank_class.stage) continue;
      AxisSet axes = bucket.shard_axes;
      if (bucket.pieces > 1) axes.insert(bucket.storage.axes.begin(), bucket.storage.axes.end());
      const auto [place, added] = by_axes.try_emplace(axes, -1);
      if (added) place->second = scalar("squared norm " + join({axes.begin(), axes.end()}, "+"));
      Instruction squares = program_op("sum_of_squares", "gradient norm", {bucket.completed.front()}, {place->second});
      squares.accumulate = !added;
      push(std::move(squares));
    }
    std::vector<BufferId> parts;
    for (const auto& [axes, buffer] : by_axes) {
      parts.push_back(buffer);
      if (!axes.empty()) push(all_reduce(buffer, in_mesh_order(builder_.program().mesh, axes), "gradient norm"));
    }
    if (parts.empty()) {
      parts.push_back(scalar("squared norm"));
      push(program_op("fill_zero", "no gradients of its own on this stage", {}, {parts.front()}));
    }
    const BufferId total = sum("gradient norm", parts);
    over_stages(total, "gradient norm");
    return total;
  }

  /// \return the factor that every gradient is multiplied by.
  BufferId clip(BufferId squares, BufferId count, double largest_norm) {
    const BufferId scale = scalar("gradient scale");
    const BufferId norm = scalar("gradient norm");
    report("grad_norm", norm);
    push(program_op("gradient_scale", "clip", {squares, count}, {scale, norm}, {{"clip", largest_norm}}));
    return scale;
  }

  void report(const std::string& name, BufferId buffer) {
    builder_.buffer(buffer).persistent = true;
    builder_.program().reports[name] = buffer;
  }

  BufferId scalar(const std::string& name) {
    return builder_.add_buffer(name, BufferKind::activation, DType::f64, {}, {});
  }

  std::vector<Instruction>& epilogue() { return builder_.task(Task::Kind::epilogue).instructions; }

 private:
  void push(Instruction instruction) { epilogue().push_back(std::move(instruction)); }

  void zero(BufferId buffer) {
    builder_.task(Task::Kind::prologue)
        .instructions.push_back(program_op("fill_zero", "zero " + builder_.buffer(buffer).name, {}, {buffer}));
  }

  Instruction all_reduce(BufferId buffer, std::vector<Axis> axes, const std::string& label) {
    return builder_.all_reduce(buffer, std::move(axes), Reduction::sum, label);
  }

  /// A tied bucket has one parameter; numbers of buckets differ between stages.
  [[nodiscard]] const std::string& name_of(const Bucket& bucket) const {
    return builder_.program().parameters[bucket.parameters.front()].name;
  }

  void over_stages(BufferId buffer, const std::string& name) {
    if (request_.stages.count > 1) push(all_reduce(buffer, {request_.stages.axis}, name + " of all stages"));
  }

  /// Sum of several buffers of one shape and type, in the first one.
  BufferId sum(const std::string& name, const std::vector<BufferId>& parts) {
    for (std::size_t i = 1; i < parts.size(); ++i) push(program_op("accumulate", name, {parts[i]}, {parts[0]}));
    return parts.front();
  }

  ProgramBuilder& builder_;
  const StepEndRequest& request_;
};

}  // namespace

std::vector<std::string> optimizer_states(const OptimizerSettings& optimizer) {
  if (optimizer.kind == OptimizerSettings::Kind::adamw) return {"first_moment", "second_moment"};
  return {"momentum"};
}

void emit_training_step_end(ProgramBuilder& builder, const StepEndRequest& request,
                            const OptimizerSettings& optimizer) {
  StepEnd end(builder, request);
  end.zero_gradients();
  if (!request.gradients_are_complete) end.complete_gradients();
  end.complete_scalar("loss", request.partitioned.loss);
  const BufferId count = end.complete_scalar("count", request.partitioned.count);
  if (request.rank_class.updates) {
    end.sum_contributions();
    end.sum_tied_gradients();
    const BufferId squares = end.squared_norm();
    const BufferId scale = end.clip(squares, count, optimizer.clip);
    emit_updates(builder, request.buckets, scale, optimizer, end.epilogue());
  } else {
    end.report("grad_norm", end.scalar("gradient norm"));
  }
  share_what_one_rank_updates(builder, request.buckets, builder.program().reports.at("grad_norm"), end.epilogue());
}

void emit_evaluation_end(ProgramBuilder& builder, const StepEndRequest& request, bool has_loss) {
  if (!has_loss) return;
  StepEnd end(builder, request);
  end.complete_scalar("loss", request.partitioned.loss);
  end.complete_scalar("count", request.partitioned.count);
}

}  // namespace strata::host
