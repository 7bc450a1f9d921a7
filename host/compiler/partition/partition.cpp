#include "compiler/partition/partition.hpp"

#include <algorithm>
#include <utility>

#include "compiler/partition/gathered_values.hpp"
#include "compiler/partition/gradient_sinks.hpp"
#include "compiler/partition/node_lowering.hpp"
#include "compiler/partition/values.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

class Partitioner {
 public:
  Partitioner(const PartitionRequest& request, ProgramBuilder& builder)
      : request_(request),
        builder_(builder),
        members_(store_parameters()),
        dealt_(BucketMaker(builder, members_, request.bucket_bytes).make_dealt()),
        gathered_(builder, dealt_, request.training),
        values_(request, builder, gathered_),
        sinks_(request.graph, request.rules, builder, dealt_) {}

  PartitionResult run() {
    for (const Sink& sink : request_.graph.sinks) sinks_of_[sink.value].push_back(&sink);
    for (std::size_t i = 0; i < homes_of_parameters_.size(); ++i) {
      const auto& [parameter, buffer, layout] = homes_of_parameters_[i];
      values_.add_parameter(*parameter, i, buffer, layout);
    }
    for (const Task::Kind kind : {Task::Kind::forward, Task::Kind::backward, Task::Kind::weight}) {
      for (const Node& node : request_.graph.nodes()) {
        if (node.is_leaf() || !values_.is_here(node) || values_.task_of(node).kind != kind) continue;
        lower_and_mark(node);
      }
    }
    gathered_.insert();
    sinks_.reduce_task_gradients();
    return {std::move(members_), std::move(dealt_), sinks_.gradients(),
            sinks_.loss(),       sinks_.count(),    std::move(used_axes_)};
  }

 private:
  struct ParameterHome {
    const Parameter* parameter;
    BufferId buffer;
    Layout layout;
  };

  /// Makes a StoredParameter of every parameter that the stage reads.
  std::vector<BucketMember> store_parameters() {
    const Graph& graph = request_.graph;
    const auto readers = request_.stages.readers(graph);
    std::map<Value, int> first_block;
    for (const Node& node : graph.nodes()) {
      for (const Value& operand : node.operands) first_block.try_emplace(operand, node.block);
    }
    std::vector<BucketMember> members;
    for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
      const Parameter& parameter = graph.parameters[i];
      const auto stages = readers.find(parameter.value);
      // What nothing reads is kept on the first stage: it is part of the model, and of its checkpoints.
      const std::set<int> here = stages == readers.end() ? std::set<int>{0} : stages->second;
      if (!here.contains(request_.stage)) continue;
      const TensorType& type = graph.type(parameter.value);
      members.push_back({builder_.program().parameters.size(),
                         request_.storage[i],
                         gradient_type(parameter, type.dtype),
                         {here.begin(), here.end()},
                         stages == readers.end() ? -1 : first_block.at(parameter.value)});
      store(parameter, type);
    }
    return members;
  }

  void store(const Parameter& parameter, const TensorType& type) {
    const Layout layout = request_.rules.canonical(type.dims);
    StoredParameter stored;
    stored.name = parameter.name;
    stored.initialization = parameter.initialization;
    stored.decay = parameter.decay;
    stored.gradient_is_zero = parameter.gradient_is_zero;
    for (std::size_t i = 0; i < type.dims.size(); ++i) {
      stored.dims.push_back(
          sharded_dim(request_.rules, type.dims[i], request_.graph.sizes.at(type.dims[i]), layout[i]));
      used_axes_.insert(layout[i].begin(), layout[i].end());
    }
    stored.value = builder_.add_buffer(parameter.name, BufferKind::parameter, type.dtype, type.dims,
                                       request_.rules.local_shape(type.dims, layout), true);
    homes_of_parameters_.push_back({&parameter, stored.value, layout});
    builder_.program().parameters.push_back(std::move(stored));
  }

  // --- one node

  /// Marks what the node adds to its task with its block.
  void lower_and_mark(const Node& node) {
    const TaskKey key = values_.task_of(node);
    const std::size_t before = builder_.task(key.kind, key.chunk).instructions.size();
    lower(node, key);
    auto& instructions = builder_.task(key.kind, key.chunk).instructions;
    for (std::size_t at = before; at < instructions.size(); ++at) {
      if (instructions[at].block < 0) instructions[at].block = node.block;
    }
  }

  void lower(const Node& node, const TaskKey& task) {
    const IterationSpace space = request_.registry.get(node.op).iteration(request_.graph, node);
    const IterationLayout iteration = request_.rules.assign(node.op, space.dims(), space.whole);
    for (const auto& [dim, axes] : iteration) used_axes_.insert(axes.begin(), axes.end());
    const NamedStrategy* claimant =
        find_claimant(request_.strategies, "how node '" + node.name + "' is lowered",
                      [&](const Strategy& strategy) { return strategy.claims_node(node, iteration); });
    const bool communicates = claimant != nullptr || results_communicate(node, space, iteration);
    if (communicates && keep_instead_of_repeating(node)) return;
    if (claimant != nullptr) {
      lower_by(*claimant, node, space, iteration, task);
      return;
    }
    std::vector<Layout> wanted;
    for (const Dims& dims : space.operands) wanted.push_back(restrict(iteration, dims));
    if (node.op == "sum" && lower_partial_sum(node, task)) return;
    const AxisSet carried = pending_partial(node, space, iteration, wanted);

    Instruction instruction;
    instruction.kind = InstructionKind::compute;
    instruction.op = node.op;
    instruction.name = node.name;
    instruction.attributes = node.attributes;
    instruction.operand_dims = space.operands;
    instruction.result_dims = space.results;
    for (const Dim& dim : space.dims()) {
      instruction.iteration.push_back(
          sharded_dim(request_.rules, dim, size_of_iteration(node, space, dim), iteration.at(dim)));
    }
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Home* home = values_.find(node.operands[i]);
      const bool stays_partial = home != nullptr && !home->partial.empty();
      instruction.inputs.push_back(stays_partial ? home->buffer
                                                 : values_.fetch(node.operands[i], wanted[i], task, node.block));
    }
    emit_with_results(node, space, iteration, carried, task, std::move(instruction));
  }

  /// True if a result is partial, or leaves the op in another layout than that in which it rests and more than a slice
  /// leads there.
  [[nodiscard]] bool results_communicate(const Node& node, const IterationSpace& space,
                                         const IterationLayout& iteration) const {
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      for (const auto& [dim, axes] : iteration) {
        if (!axes.empty() && find_dim(space.results[k], dim) < 0) return true;
      }
      const Layout layout = restrict(iteration, space.results[k]);
      const Layout canonical = request_.rules.canonical(node.results[k].dims);
      for (std::size_t i = 0; i < layout.size(); ++i) {
        const bool is_prefix = layout[i].size() <= canonical[i].size() &&
                               std::equal(layout[i].begin(), layout[i].end(), canonical[i].begin());
        if (!is_prefix) return true;
      }
    }
    return false;
  }

  /// A clone whose result would have to be communicated again stands for the forward result, which is kept.
  bool keep_instead_of_repeating(const Node& node) {
    if (node.recomputes < 0) return false;
    for (int k = 0; k < static_cast<int>(node.results.size()); ++k) {
      const Home* kept = values_.find({node.recomputes, k});
      if (kept == nullptr || !kept->partial.empty()) return false;
    }
    for (int k = 0; k < static_cast<int>(node.results.size()); ++k) values_.alias({node.id, k}, {node.recomputes, k});
    return true;
  }

  void lower_by(const NamedStrategy& claimant, const Node& node, const IterationSpace& space,
                const IterationLayout& iteration, const TaskKey& task) {
    NodeLowering lowering({request_, builder_, values_, node, space, iteration, task});
    claimant.strategy->lower(lowering);
    const std::vector<Home> homes = lowering.take_results(claimant.name);
    for (std::size_t k = 0; k < homes.size(); ++k) define({node.id, static_cast<int>(k)}, homes[k]);
  }

  /// Adds equally partial, equally laid out terms without completing them: one collective for the sum instead of one a
  /// term.
  bool lower_partial_sum(const Node& node, const TaskKey& task) {
    const Home* first = values_.find(node.operands.front());
    if (first == nullptr || first->partial.empty()) return false;
    const Home home = *first;
    for (const Value& operand : node.operands) {
      const Home* other = values_.find(operand);
      if (other == nullptr || other->partial != home.partial || other->layout != home.layout) return false;
    }
    const Dims& dims = node.results.front().dims;
    Instruction instruction;
    instruction.kind = InstructionKind::compute;
    instruction.op = node.op;
    instruction.name = node.name;
    instruction.operand_dims.assign(node.operands.size(), dims);
    instruction.result_dims = {dims};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      instruction.iteration.push_back(
          sharded_dim(request_.rules, dims[i], request_.graph.sizes.at(dims[i]), home.layout[i]));
    }
    for (const Value& operand : node.operands) instruction.inputs.push_back(values_.find(operand)->buffer);
    const Value result{node.id, 0};
    const BufferId output =
        builder_.add_buffer(values_.label(result, task), BufferKind::activation, node.results.front().dtype, dims,
                            request_.rules.local_shape(dims, home.layout));
    instruction.outputs = {output};
    append(task, std::move(instruction));
    define(result, {output, home.layout, home.partial, Reduction::sum, task});
    return true;
  }

  /// The partial axes of operands that may stay so through this op; others are completed here.
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
        if (find_dim(space.results[k], dim) < 0) home.partial.insert(axes.begin(), axes.end());
      }
      homes.push_back(std::move(home));
    }
    if (contributes_directly(node, homes)) {
      instruction.accumulate = !is_fresh(node, homes);
      for (std::size_t k = 0; k < homes.size(); ++k) {
        instruction.outputs.push_back(sinks_.contribute(only_sink(node, k), homes[k].partial, task));
      }
      append(task, std::move(instruction));
      return;
    }
    for (std::size_t k = 0; k < homes.size(); ++k) {
      const Value value{node.id, static_cast<int>(k)};
      const TensorType& type = node.results[k];
      homes[k].buffer = builder_.add_buffer(values_.label(value, task), BufferKind::activation, type.dtype, type.dims,
                                            request_.rules.local_shape(type.dims, homes[k].layout));
      instruction.outputs.push_back(homes[k].buffer);
    }
    append(task, std::move(instruction));
    for (std::size_t k = 0; k < homes.size(); ++k) define({node.id, static_cast<int>(k)}, std::move(homes[k]));
  }

  [[nodiscard]] const Sink& only_sink(const Node& node, std::size_t result) const {
    return *sinks_of_.at({node.id, static_cast<int>(result)}).front();
  }

  [[nodiscard]] bool is_fresh(const Node& node, const std::vector<Home>& homes) const {
    return sinks_.is_fresh(only_sink(node, 0), homes[0].partial, homes[0].task);
  }

  /// True if every result goes to one sink and nowhere else, as it is, and all are the first or none is: then the
  /// kernel writes it there, or adds to it, itself.
  [[nodiscard]] bool contributes_directly(const Node& node, const std::vector<Home>& homes) const {
    for (std::size_t k = 0; k < homes.size(); ++k) {
      const Value value{node.id, static_cast<int>(k)};
      const auto sinks = sinks_of_.find(value);
      if (sinks == sinks_of_.end() || sinks->second.size() != 1 || values_.is_read(value)) return false;
      const Sink& sink = *sinks->second.front();
      if (sink.kind == Sink::Kind::output) return false;
      if (homes[k].layout != request_.rules.canonical(node.results[k].dims)) return false;
      if (node.results[k].dtype != accumulated_in(sink, node.results[k].dtype)) return false;
      if (sinks_.is_fresh(sink, homes[k].partial, homes[k].task) != is_fresh(node, homes)) return false;
    }
    return !homes.empty();
  }

  [[nodiscard]] DType accumulated_in(const Sink& sink, DType type) const {
    if (sink.kind != Sink::Kind::parameter_gradient) return accumulation_type(type);
    return gradient_type(*request_.graph.find_parameter(sink.name), type);
  }

  void define(Value value, Home home) {
    const auto sinks = sinks_of_.find(value);
    if (sinks != sinks_of_.end()) {
      for (const Sink* sink : sinks->second) add_to_sink(*sink, value, home);
    }
    values_.define(value, std::move(home));
  }

  void add_to_sink(const Sink& sink, Value value, Home home) {
    if (sink.kind == Sink::Kind::output) {
      report(sink.name, value, home);
      return;
    }
    const Layout canonical = request_.rules.canonical(request_.graph.type(value).dims);
    if (home.layout != canonical) {
      // Axes that the parameter is sharded over are completed on the way to its layout, the others stay.
      AxisSet keep = home.partial;
      for (const auto& axes : canonical) {
        for (const Axis& axis : axes) keep.erase(axis);
      }
      home.buffer = values_.convert(value, home, canonical, keep, home.task);
      home.partial = keep;
    }
    const bool fresh = sinks_.is_fresh(sink, home.partial, home.task);
    const BufferId into = sinks_.contribute(sink, home.partial, home.task);
    const std::string name = values_.label(value, home.task);
    if (fresh) append(home.task, program_op("fill_zero", name, {}, {into}));
    append(home.task, program_op("accumulate", name, {home.buffer}, {into}));
  }

  /// An output is read by the host after the step: whole on every rank.
  void report(const std::string& name, Value value, const Home& home) {
    const Layout whole(request_.graph.type(value).dims.size());
    const BufferId buffer = values_.convert(value, home, whole, {}, home.task);
    builder_.buffer(buffer).persistent = true;
    builder_.program().reports[name] = buffer;
  }

  void append(const TaskKey& task, Instruction instruction) {
    builder_.task(task.kind, task.chunk).instructions.push_back(std::move(instruction));
  }

  // --- layouts

  static Layout restrict(const IterationLayout& iteration, const Dims& dims) {
    Layout layout;
    for (const Dim& dim : dims) layout.push_back(iteration.at(dim));
    return layout;
  }

  /// The global size of an iteration dimension, read off the operand or result dimension that it walks.
  [[nodiscard]] std::int64_t size_of_iteration(const Node& node, const IterationSpace& space, const Dim& dim) const {
    for (std::size_t i = 0; i < space.operands.size(); ++i) {
      const int at = find_dim(space.operands[i], dim);
      if (at >= 0) return request_.graph.shape(node.operands[i])[static_cast<std::size_t>(at)];
    }
    return request_.graph.sizes.at(dim);
  }

  const PartitionRequest& request_;
  ProgramBuilder& builder_;
  std::set<Axis> used_axes_;
  std::vector<ParameterHome> homes_of_parameters_;
  std::vector<BucketMember> members_;
  std::vector<Bucket> dealt_;
  GatheredValues gathered_;
  Values values_;
  GradientSinks sinks_;
  std::map<Value, std::vector<const Sink*>> sinks_of_;
};

}  // namespace

PartitionResult partition(const PartitionRequest& request, ProgramBuilder& builder) {
  return Partitioner(request, builder).run();
}

ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size, const std::vector<Axis>& axes) {
  ShardedDim sharded{dim, size, {}, dim == "batch"};
  for (const Axis& axis : axes) sharded.axes.push_back({axis, rules.distribution(dim, axis)});
  return sharded;
}

}  // namespace strata::host
