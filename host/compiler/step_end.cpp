#include "compiler/step_end.hpp"

#include <map>
#include <string>
#include <utility>

namespace strata::host {
namespace {

std::vector<Axis> in_mesh_order(const Mesh& mesh, const AxisSet& axes) {
  std::vector<Axis> ordered;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axes.contains(axis.name)) ordered.push_back(axis.name);
  }
  return ordered;
}

/// Emits one end of step; every scalar is f64.
class StepEnd {
 public:
  explicit StepEnd(ProgramBuilder& builder) : builder_(builder) {}

  void zero(const std::vector<BufferId>& buffers) {
    auto& prologue = builder_.task(Task::Kind::prologue).instructions;
    for (const BufferId buffer : buffers) {
      prologue.push_back(program_op("fill_zero", "zero " + builder_.buffer(buffer).name, {}, {buffer}));
    }
  }

  /// Adds up the accumulators of loss or count, each completed over its own axes, and reports the total. \return its
  /// buffer.
  BufferId complete_scalar(const std::string& name, const PartialAccumulators& accumulators) {
    std::vector<BufferId> parts;
    for (const auto& [partial, buffer] : accumulators) {
      parts.push_back(buffer);
      zero({buffer});
      if (partial.empty()) continue;
      push(builder_.all_reduce(buffer, in_mesh_order(builder_.program().mesh, partial), Reduction::sum, name));
    }
    const BufferId total = sum(name, parts);
    builder_.buffer(total).persistent = true;
    builder_.program().reports[name] = total;
    return total;
  }

  /// Sum of several flat buffers of one type, in the first one.
  BufferId sum(const std::string& name, const std::vector<BufferId>& parts) {
    for (std::size_t i = 1; i < parts.size(); ++i) {
      push(program_op("accumulate", name, {parts[i]}, {parts[0]}));
    }
    return parts.front();
  }

  /// Sum over all parameters of their squared gradient, each element once.
  BufferId squared_norm(const std::vector<Bucket>& buckets) {
    std::map<AxisSet, BufferId> by_axes;
    for (const Bucket& bucket : buckets) {
      const auto [place, added] = by_axes.try_emplace(bucket.shard_axes, -1);
      if (added)
        place->second = scalar("squared norm " + join({bucket.shard_axes.begin(), bucket.shard_axes.end()}, "+"));
      Instruction squares =
          program_op("sum_of_squares", "gradient norm", {bucket.gradients.front().second}, {place->second});
      squares.accumulate = !added;
      push(std::move(squares));
    }
    std::vector<BufferId> parts;
    for (const auto& [axes, buffer] : by_axes) {
      parts.push_back(buffer);
      if (!axes.empty())
        push(
            builder_.all_reduce(buffer, in_mesh_order(builder_.program().mesh, axes), Reduction::sum, "gradient norm"));
    }
    return sum("gradient norm", parts);
  }

  void update(const Bucket& bucket, BufferId scale, const OptimizerSettings& optimizer) {
    Attributes attributes{{"weight_decay", optimizer.weight_decay}, {"decay_elements", bucket.decay_elements}};
    std::string op = "sgd_update";
    if (optimizer.kind == OptimizerSettings::Kind::adamw) {
      op = "adamw_update";
      attributes.set("beta1", optimizer.beta1);
      attributes.set("beta2", optimizer.beta2);
      attributes.set("epsilon", optimizer.epsilon);
    } else {
      attributes.set("momentum", optimizer.momentum);
    }
    std::vector<BufferId> updated{bucket.values};
    updated.insert(updated.end(), bucket.states.begin(), bucket.states.end());
    Instruction instruction =
        program_op(std::move(op), "update " + builder_.buffer(bucket.values).name,
                   {bucket.gradients.front().second, scale}, std::move(updated), std::move(attributes));
    instruction.iteration = {{"flat", bucket.elements, {}, false}};
    push(std::move(instruction));
  }

  void push(Instruction instruction) {
    builder_.task(Task::Kind::epilogue).instructions.push_back(std::move(instruction));
  }

  BufferId scalar(const std::string& name) {
    return builder_.add_buffer(name, BufferKind::activation, DType::f64, {}, {});
  }

 private:
  ProgramBuilder& builder_;
};

}  // namespace

std::vector<std::string> optimizer_states(const OptimizerSettings& optimizer) {
  if (optimizer.kind == OptimizerSettings::Kind::adamw) return {"first_moment", "second_moment"};
  return {"momentum"};
}

std::vector<Instruction> complete_gradients(ProgramBuilder& builder, const Bucket& bucket) {
  std::vector<Instruction> instructions;
  for (const auto& [partial, buffer] : bucket.gradients) {
    if (partial.empty()) continue;
    instructions.push_back(builder.all_reduce(buffer, in_mesh_order(builder.program().mesh, partial), Reduction::sum,
                                              builder.buffer(buffer).name));
  }
  return instructions;
}

void emit_training_step_end(ProgramBuilder& builder, const PartitionResult& partitioned,
                            const std::vector<Bucket>& buckets, const OptimizerSettings& optimizer,
                            bool gradients_are_complete) {
  StepEnd end(builder);
  for (const Bucket& bucket : buckets) {
    for (const auto& [partial, gradient] : bucket.gradients) end.zero({gradient});
    if (gradients_are_complete) continue;
    for (Instruction& instruction : complete_gradients(builder, bucket)) end.push(std::move(instruction));
  }
  end.complete_scalar("loss", partitioned.loss);
  const BufferId count = end.complete_scalar("count", partitioned.count);
  for (const Bucket& bucket : buckets) {
    std::vector<BufferId> parts;
    for (const auto& [partial, gradient] : bucket.gradients) parts.push_back(gradient);
    end.sum(builder.buffer(bucket.values).name + ".gradient", parts);
  }
  const BufferId squares = end.squared_norm(buckets);
  const BufferId scale = end.scalar("gradient scale");
  const BufferId norm = end.scalar("gradient norm");
  builder.buffer(norm).persistent = true;
  builder.program().reports["grad_norm"] = norm;
  end.push(program_op("gradient_scale", "clip", {squares, count}, {scale, norm}, {{"clip", optimizer.clip}}));
  for (const Bucket& bucket : buckets) end.update(bucket, scale, optimizer);
}

void emit_evaluation_end(ProgramBuilder& builder, const PartitionResult& partitioned) {
  if (partitioned.loss.empty()) return;
  StepEnd end(builder);
  end.complete_scalar("loss", partitioned.loss);
  end.complete_scalar("count", partitioned.count);
}

}  // namespace strata::host
