#include "compiler/partition/partition.hpp"

#include <algorithm>
#include <utility>

#include "compiler/partition/gathered_values.hpp"
#include "compiler/partition/gradient_sinks.hpp"
#include "compiler/partition/node_lowering.hpp"
#include "compiler/partition/values.hpp"
#include "compiler/placement/bucket.hpp"
#include "compiler/placement/rule_filters.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::host {
namespace {

class Partitioner {
 public:
  Partitioner(const PlacedModel& model, const StoredParameters& parameters, int stage, ProgramBuilder& builder)
      : model_(model),
        parameters_(parameters),
        apart_(model.apart()),
        builder_(builder),
        gathered_(builder, parameters.dealt, model.is_training()),
        values_(model, stage, builder, gathered_),
        sinks_(model.graph, model.rules, builder, parameters.dealt, model.metrics) {}

  PartitionResult run() {
    for (std::size_t i = 0; i < parameters_.homes.size(); ++i) {
      const auto& [parameter, buffer, layout] = parameters_.homes[i];
      found_.used_axes.merge(axes_of(layout));
      values_.add_parameter(*parameter, i, buffer, layout);
    }
    for (const Task::Kind kind : {Task::Kind::forward, Task::Kind::backward, Task::Kind::weight}) {
      for (const Node& node : model_.graph.nodes()) {
        if (node.is_leaf() || !values_.is_here(node) || values_.task_of(node).kind != kind) continue;
        lower_and_mark(node);
      }
    }
    gathered_.insert();
    sinks_.reduce_task_gradients();
    if (model_.is_training()) sinks_.add_missing_gradients();
    values_.order_receives();
    return {sinks_.take(), std::move(found_)};
  }

 private:
  // --- one node at a time

  /// Marks the instructions that the node adds to its task with the node's block.
  void lower_and_mark(const Node& node) {
    const TaskKey key = values_.task_of(node);
    const std::size_t before = builder_.task(key).instructions.size();
    lower(node, key);
    auto& instructions = builder_.task(key).instructions;
    for (std::size_t at = before; at < instructions.size(); ++at) {
      if (instructions[at].block < 0) instructions[at].block = node.block;
    }
  }

  void lower(const Node& node, const TaskKey& task) {
    const OpDefinition& op = model_.registry().get(node.op);
    const IterationSpace space = op.iteration(model_.graph, node);
    const std::optional<PositionMixing> mixing = op.mixing(model_.graph, node);
    const IterationLayout iteration =
        model_.rules.assign(rule_target(node, space, mixing), space.whole, &found_.undivided);
    for (const auto& [dim, axes] : iteration) found_.used_axes.insert(axes.begin(), axes.end());
    const LoweredNode lowered{model_, node, space, iteration, mixing ? &*mixing : nullptr, found_.notes};
    const auto claim = find_claim(model_.stack.strategies, "lower", "how node '" + node.name + "' is lowered",
                                  [&](const NamedStrategy& each) {
                                    OfferedNode offered(lowered, each.name);
                                    return each.strategy->lower(offered);
                                  });
    const bool communicates = claim.has_value() || results_communicate(node, space, iteration);
    if (communicates && keep_instead_of_repeating(node)) return;
    if (claim) return lower_by(*claim->claimant, claim->decision, lowered, task);
    std::vector<Layout> wanted;
    for (const Dims& dims : space.operands) wanted.push_back(restrict(iteration, dims));
    if (op.is_sum() && lower_partial_sum(node, task)) return;
    const AxisSet carried = pending_partial(node, space, iteration, wanted);

    Compute compute{.op = node.op, .attributes = node.attributes};
    compute.operand_dims = space.operands;
    compute.result_dims = space.results;
    for (const Dim& dim : space.dims()) {
      compute.iteration.push_back(
          sharded_dim(model_.rules, dim, size_of_iteration(node, space, dim), iteration.at(dim)));
    }
    Instruction instruction{.name = node.name, .work = std::move(compute)};
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Home* home = values_.find(node.operands[i]);
      const bool stays_partial = home != nullptr && !home->partial.empty();
      instruction.inputs.push_back(stays_partial ? home->buffer
                                                 : values_.fetch(node.operands[i], wanted[i], task, node.block));
    }
    emit_with_results(node, space, iteration, carried, task, std::move(instruction));
  }

  /// True if a result needs communication: it is partial, or its layout differs from the canonical one by more than a
  /// slice.
  [[nodiscard]] bool results_communicate(const Node& node, const IterationSpace& space,
                                         const IterationLayout& iteration) const {
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      for (const auto& [dim, axes] : iteration) {
        if (!axes.empty() && !contains(space.results[k], dim)) return true;
      }
      const Layout layout = restrict(iteration, space.results[k]);
      const Layout canonical = model_.rules.canonical(node.results[k].dims, node.name);
      for (std::size_t i = 0; i < layout.size(); ++i) {
        const bool is_prefix = layout[i].size() <= canonical[i].size() &&
                               std::equal(layout[i].begin(), layout[i].end(), canonical[i].begin());
        if (!is_prefix) return true;
      }
    }
    return false;
  }

  /// If the result of a recomputed node needs communication, uses the stashed forward result instead of repeating it.
  bool keep_instead_of_repeating(const Node& node) {
    if (node.recomputes < 0) return false;
    for (int k = 0; k < static_cast<int>(node.results.size()); ++k) {
      const Home* kept = values_.find({node.recomputes, k});
      if (kept == nullptr || !kept->partial.empty()) return false;
    }
    for (int k = 0; k < static_cast<int>(node.results.size()); ++k) values_.alias({node.id, k}, {node.recomputes, k});
    return true;
  }

  void lower_by(const NamedStrategy& claimant, const Lowering& lower, const LoweredNode& lowered, const TaskKey& task) {
    NodeLowering lowering({lowered, builder_, values_, task, claimant});
    claimant.ask("lower", [&](const Strategy& /*strategy*/) { lower(lowering); });
    found_.effective.insert(claimant.name);
    std::vector<Home> homes = lowering.take_results();
    for (std::size_t k = 0; k < homes.size(); ++k) {
      keep_replicas_apart(homes[k]);
      define({lowered.node.id, static_cast<int>(k)}, std::move(homes[k]));
    }
  }

  /// Adds terms that are partial over the same axes and have the same layout, without completing them. The sum then
  /// needs one collective instead of one per term.
  bool lower_partial_sum(const Node& node, const TaskKey& task) {
    const Home* first = values_.find(node.operands.front());
    if (first == nullptr || first->partial.empty()) return false;
    const Home home = *first;
    for (const Value& operand : node.operands) {
      const Home* other = values_.find(operand);
      if (other == nullptr || other->partial != home.partial || other->layout != home.layout) return false;
    }
    const Dims& dims = node.results.front().dims;
    Compute sum{.op = node.op};
    sum.operand_dims.assign(node.operands.size(), dims);
    sum.result_dims = {dims};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      sum.iteration.push_back(sharded_dim(model_.rules, dims[i], model_.graph.sizes.at(dims[i]), home.layout[i]));
    }
    Instruction instruction{.name = node.name, .work = std::move(sum)};
    for (const Value& operand : node.operands) instruction.inputs.push_back(values_.find(operand)->buffer);
    const Value result{node.id, 0};
    const BufferId output =
        builder_.add_buffer(values_.label(result, task), BufferKind::activation, node.results.front().dtype, dims,
                            model_.rules.local_shape(dims, home.layout));
    instruction.outputs = {output};
    append(task, std::move(instruction));
    define(result, {output, home.layout, home.partial, Reduction::sum, task});
    return true;
  }

  /// The partial axes that operands may keep through this op. Other partial axes are completed here.
  AxisSet pending_partial(const Node& node, const IterationSpace& space, const IterationLayout& iteration,
                          const std::vector<Layout>& wanted) {
    AxisSet carried;
    bool acceptable = true;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Home* home = values_.find(node.operands[i]);
      if (home == nullptr || home->partial.empty()) continue;
      acceptable = acceptable && space.partial_operands.size() == 1 &&
                   space.partial_operands.contains(static_cast<int>(i)) && home->layout == wanted[i];
      for (const auto& [dim, axes] : iteration) {
        for (const Axis& axis : axes) acceptable = acceptable && !home->partial.contains(axis);
      }
      carried.insert(home->partial.begin(), home->partial.end());
    }
    if (acceptable) return carried;
    for (const Value& operand : node.operands) values_.complete(operand);
    return {};
  }

  // --- results

  void emit_with_results(const Node& node, const IterationSpace& space, const IterationLayout& iteration,
                         const AxisSet& carried, const TaskKey& task, Instruction instruction) {
    std::vector<Home> homes;
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      Home home{-1, restrict(iteration, space.results[k]), carried, space.reduction, task};
      for (const auto& [dim, axes] : iteration) {
        if (!contains(space.results[k], dim)) home.partial.insert(axes.begin(), axes.end());
      }
      keep_replicas_apart(home);
      homes.push_back(std::move(home));
    }
    if (contributes_directly(node, homes)) {
      instruction.as<Compute>()->accumulate = !is_fresh(node, homes);
      for (std::size_t k = 0; k < homes.size(); ++k) {
        instruction.outputs.push_back(sinks_.contribute(only_sink(node, k), homes[k].partial, task));
      }
      append(task, std::move(instruction));
      return;
    }
    for (std::size_t k = 0; k < homes.size(); ++k) {
      const Value value{node.id, static_cast<int>(k)};
      const TensorType& type = node.results[k];
      const bool is_kept = model_.registry().get(node.op).keeps_result(static_cast<int>(k));
      homes[k].buffer =
          builder_.add_buffer(values_.label(value, task), is_kept ? BufferKind::cache : BufferKind::activation,
                              type.dtype, type.dims, model_.rules.local_shape(type.dims, homes[k].layout), is_kept);
      instruction.outputs.push_back(homes[k].buffer);
    }
    append(task, std::move(instruction));
    for (std::size_t k = 0; k < homes.size(); ++k) define({node.id, static_cast<int>(k)}, std::move(homes[k]));
  }

  void keep_replicas_apart(Home& home) const {
    for (const Axis& axis : apart_) home.partial.erase(axis);
  }

  [[nodiscard]] const Sink& only_sink(const Node& node, std::size_t result) const {
    return *model_.index.sinks.at({node.id, static_cast<int>(result)}).front();
  }

  [[nodiscard]] bool is_fresh(const Node& node, const std::vector<Home>& homes) const {
    return sinks_.is_fresh(only_sink(node, 0), homes[0].partial, homes[0].task);
  }

  /// True if the kernel can write every result to its sink itself, or add to it: each result has one sink and no other
  /// reader, in the sink's layout, and either all results are first contributions or none is.
  [[nodiscard]] bool contributes_directly(const Node& node, const std::vector<Home>& homes) const {
    for (std::size_t k = 0; k < homes.size(); ++k) {
      const Value value{node.id, static_cast<int>(k)};
      const std::vector<const Sink*>& sinks = model_.index.sinks_of(value);
      if (sinks.size() != 1 || values_.is_read(value)) return false;
      const Sink& sink = *sinks.front();
      if (sink.kind == Sink::Kind::output) return false;
      if (homes[k].layout != sinks_.layout(sink)) return false;
      if (node.results[k].dtype != sinks_.type_of(sink)) return false;
      if (sinks_.is_fresh(sink, homes[k].partial, homes[k].task) != is_fresh(node, homes)) return false;
    }
    return !homes.empty();
  }

  void define(Value value, Home home) {
    for (const Sink* sink : model_.index.sinks_of(value)) add_to_sink(*sink, value, home);
    values_.define(value, std::move(home));
  }

  void add_to_sink(const Sink& sink, Value value, Home home) {
    if (sink.kind == Sink::Kind::output) {
      report(sink.name, value, home);
      return;
    }
    const Layout canonical = sinks_.layout(sink);
    if (home.layout != canonical) {
      // The conversion completes the axes that shard the parameter. The gradient stays partial over the others.
      AxisSet keep = home.partial;
      for (const Axis& axis : axes_of(canonical)) keep.erase(axis);
      home.buffer = values_.convert(value, home, canonical, keep, home.task);
      home.partial = keep;
    }
    const bool fresh = sinks_.is_fresh(sink, home.partial, home.task);
    const BufferId into = sinks_.contribute(sink, home.partial, home.task);
    const std::string name = values_.label(value, home.task);
    if (fresh) append(home.task, flat_op(ops::kFillZero, name, {}, {into}));
    append(home.task, flat_op(ops::kAccumulate, name, {home.buffer}, {into}));
  }

  /// Registers an output, converted to whole on every rank, because the host reads it after the step.
  void report(const std::string& name, Value value, const Home& home) {
    const Layout whole(model_.graph.type(value).dims.size());
    const BufferId buffer = values_.convert(value, home, whole, {}, home.task);
    builder_.buffer(buffer).persistent = true;
    builder_.program().reports[name] = buffer;
  }

  void append(const TaskKey& task, Instruction instruction) {
    builder_.task(task).instructions.push_back(std::move(instruction));
  }

  // --- layouts

  static Layout restrict(const IterationLayout& iteration, const Dims& dims) {
    Layout layout;
    for (const Dim& dim : dims) layout.push_back(iteration.at(dim));
    return layout;
  }

  /// Global size of an iteration dimension, taken from an operand or result that it iterates.
  [[nodiscard]] std::int64_t size_of_iteration(const Node& node, const IterationSpace& space, const Dim& dim) const {
    for (std::size_t i = 0; i < space.operands.size(); ++i) {
      const int at = find_dim(space.operands[i], dim);
      if (at >= 0) return model_.graph.shape(node.operands[i])[static_cast<std::size_t>(at)];
    }
    return model_.graph.sizes.at(dim);
  }

  const PlacedModel& model_;
  const StoredParameters& parameters_;
  /// No value is a partial sum over these axes.
  AxisSet apart_;
  ProgramBuilder& builder_;
  Findings found_;
  GatheredValues gathered_;
  Values values_;
  GradientSinks sinks_;
};

}  // namespace

PartitionResult partition(const PlacedModel& model, const StoredParameters& parameters, int stage,
                          ProgramBuilder& builder) {
  return Partitioner(model, parameters, stage, builder).run();
}

}  // namespace strata::host
