#include "compiler/partition.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/accumulators.hpp"
#include "compiler/conversion.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Where a value is after its producer ran.
struct Home {
  BufferId buffer = -1;
  Layout layout;
  AxisSet partial;
  Reduction reduction = Reduction::sum;
  Task::Kind task = Task::Kind::forward;
};

class Partitioner {
 public:
  Partitioner(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules, ProgramBuilder& builder)
      : graph_(graph), registry_(registry), rules_(rules), builder_(builder), accumulators_(graph, rules, builder) {}

  PartitionResult run() {
    index_consumers_and_sinks();
    store_parameters();
    for (const Task::Kind kind : {Task::Kind::forward, Task::Kind::backward}) {
      for (const Node& node : graph_.nodes()) {
        if (!node.is_leaf() && task_of(node) == kind) lower(node);
      }
    }
    require_every_axis_used();
    return accumulators_.take();
  }

 private:
  struct Use {
    const Node* node;
    int operand;
  };

  /// W nodes stay beside the B nodes that differentiation put them next to: what they read is alive there.
  static Task::Kind task_of(const Node& node) {
    return node.phase == Phase::forward ? Task::Kind::forward : Task::Kind::backward;
  }

  void index_consumers_and_sinks() {
    for (const Node& node : graph_.nodes()) {
      for (std::size_t i = 0; i < node.operands.size(); ++i)
        uses_[node.operands[i]].push_back({&node, static_cast<int>(i)});
    }
    for (const Sink& sink : graph_.sinks) sinks_[sink.value].push_back(&sink);
  }

  void store_parameters() {
    for (const Parameter& parameter : graph_.parameters) {
      const TensorType& type = graph_.type(parameter.value);
      const Layout layout = rules_.canonical(type.dims);
      StoredParameter stored;
      stored.name = parameter.name;
      stored.initialization = parameter.initialization;
      stored.decay = parameter.decay;
      stored.gradient_is_zero = parameter.gradient_is_zero;
      for (std::size_t i = 0; i < type.dims.size(); ++i) {
        stored.dims.push_back(sharded_dim(rules_, type.dims[i], graph_.sizes.at(type.dims[i]), layout[i]));
        used_axes_.insert(layout[i].begin(), layout[i].end());
      }
      stored.value = builder_.add_buffer(parameter.name, BufferKind::parameter, type.dtype, type.dims,
                                         rules_.local_shape(type.dims, layout), true);
      home_[parameter.value] = {stored.value, layout, {}, Reduction::sum, Task::Kind::forward};
      builder_.program().parameters.push_back(std::move(stored));
    }
  }

  // --- reading values

  /// The buffer that holds `value` in `layout` for an instruction of `kind`; conversions are shared within a task.
  BufferId fetch(Value value, const Layout& layout, Task::Kind kind) {
    const Node& producer = graph_.node(value.node);
    if (producer.op == "input") return load(producer, layout);
    const Home& home = home_.at(value);
    if (!home.partial.empty()) throw VerificationError("value '" + producer.name + "' is read while it is partial");
    if (home.layout == layout) return home.buffer;
    const auto key = std::make_tuple(value, layout, kind);
    const auto known = converted_.find(key);
    if (known != converted_.end()) return known->second;
    const BufferId buffer = convert(value, home, layout, {}, kind);
    converted_.emplace(key, buffer);
    return buffer;
  }

  BufferId convert(Value value, const Home& home, const Layout& to, const AxisSet& keep, Task::Kind kind) {
    ConversionRequest request;
    request.buffer = home.buffer;
    request.dims = graph_.type(value).dims;
    request.from = home.layout;
    std::set_difference(home.partial.begin(), home.partial.end(), keep.begin(), keep.end(),
                        std::inserter(request.partial, request.partial.end()));
    request.reduction = home.reduction;
    request.to = to;
    request.label = label(value, kind);
    return emit_conversion(builder_, rules_, request, builder_.task(kind).instructions);
  }

  /// Inputs are small and integers: the forward pass's copy is kept for the backward pass.
  BufferId load(const Node& input, const Layout& layout) {
    const auto key = std::make_pair(input.name, layout);
    const auto known = loaded_.find(key);
    if (known != loaded_.end()) return known->second;
    const TensorType& type = input.results.front();
    const BufferId buffer = builder_.add_buffer(input.name, BufferKind::activation, type.dtype, type.dims,
                                                rules_.local_shape(type.dims, layout));
    Instruction instruction;
    instruction.kind = InstructionKind::load;
    instruction.name = input.name;
    instruction.outputs = {buffer};
    instruction.result_dims = {type.dims};
    for (std::size_t i = 0; i < type.dims.size(); ++i) {
      instruction.iteration.push_back(sharded_dim(rules_, type.dims[i], graph_.sizes.at(type.dims[i]), layout[i]));
    }
    auto& forward = builder_.task(Task::Kind::forward).instructions;
    // Loads come first: the backward pass may be the first to ask for this layout.
    forward.insert(forward.begin() + load_count_++, std::move(instruction));
    loaded_.emplace(key, buffer);
    return buffer;
  }

  [[nodiscard]] std::string label(Value value, Task::Kind kind) const {
    const Node& node = graph_.node(value.node);
    std::string text = node.name;
    if (node.phase != Phase::forward && !node.is_leaf()) text += "." + node.op;
    if (value.result != 0) text += "." + std::to_string(value.result);
    return kind == Task::Kind::forward ? text : text + " (backward)";
  }

  // --- one node

  void lower(const Node& node) {
    const OpDefinition& op = registry_.get(node.op);
    const IterationSpace space = op.iteration(graph_, node);
    const Task::Kind kind = task_of(node);
    const IterationLayout iteration = rules_.assign(node.op, space.dims(), space.whole);
    for (const auto& [dim, axes] : iteration) used_axes_.insert(axes.begin(), axes.end());

    std::vector<Layout> wanted;
    for (const Dims& dims : space.operands) wanted.push_back(restrict(iteration, dims));
    if (node.op == "sum" && lower_partial_sum(node, kind)) return;
    const AxisSet carried = pending_partial(node, space, iteration, wanted);

    Instruction instruction;
    instruction.kind = InstructionKind::compute;
    instruction.op = node.op;
    instruction.name = node.name;
    instruction.attributes = node.attributes;
    instruction.operand_dims = space.operands;
    instruction.result_dims = space.results;
    for (const Dim& dim : space.dims()) {
      instruction.iteration.push_back(sharded_dim(rules_, dim, size_of_iteration(node, space, dim), iteration.at(dim)));
    }
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value operand = node.operands[i];
      const auto home = home_.find(operand);
      const bool stays_partial = home != home_.end() && !home->second.partial.empty();
      instruction.inputs.push_back(stays_partial ? home->second.buffer : fetch(operand, wanted[i], kind));
    }
    emit_with_results(node, space, iteration, carried, kind, std::move(instruction));
  }

  /// Adds equally partial, equally laid out terms without completing them: one collective for the sum instead of one a
  /// term.
  bool lower_partial_sum(const Node& node, Task::Kind kind) {
    const auto first = home_.find(node.operands.front());
    if (first == home_.end() || first->second.partial.empty()) return false;
    const Home& home = first->second;
    for (const Value& operand : node.operands) {
      const auto other = home_.find(operand);
      if (other == home_.end() || other->second.partial != home.partial || other->second.layout != home.layout)
        return false;
    }
    const Dims& dims = node.results.front().dims;
    Instruction instruction;
    instruction.kind = InstructionKind::compute;
    instruction.op = node.op;
    instruction.name = node.name;
    instruction.operand_dims.assign(node.operands.size(), dims);
    instruction.result_dims = {dims};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      instruction.iteration.push_back(sharded_dim(rules_, dims[i], graph_.sizes.at(dims[i]), home.layout[i]));
    }
    for (const Value& operand : node.operands) instruction.inputs.push_back(home_.at(operand).buffer);
    const Value result{node.id, 0};
    const BufferId output = builder_.add_buffer(label(result, kind), BufferKind::activation, node.results.front().dtype,
                                                dims, rules_.local_shape(dims, home.layout));
    instruction.outputs = {output};
    builder_.task(kind).instructions.push_back(std::move(instruction));
    define(result, {output, home.layout, home.partial, Reduction::sum, kind});
    return true;
  }

  /// The partial axes of operands that may stay so through this op; others are completed here.
  AxisSet pending_partial(const Node& node, const IterationSpace& space, const IterationLayout& iteration,
                          const std::vector<Layout>& wanted) {
    AxisSet carried;
    bool acceptable = true;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const auto home = home_.find(node.operands[i]);
      if (home == home_.end() || home->second.partial.empty()) continue;
      acceptable = acceptable && space.partial_operands.size() == 1 &&
                   space.partial_operands.contains(static_cast<int>(i)) && home->second.layout == wanted[i];
      for (const auto& [dim, axes] : iteration) {
        for (const Axis& axis : axes) acceptable = acceptable && !home->second.partial.contains(axis);
      }
      carried.insert(home->second.partial.begin(), home->second.partial.end());
    }
    if (acceptable) return carried;
    for (const Value& operand : node.operands) complete(operand);
    return {};
  }

  void emit_with_results(const Node& node, const IterationSpace& space, const IterationLayout& iteration,
                         const AxisSet& carried, Task::Kind kind, Instruction instruction) {
    std::vector<Home> homes;
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      Home home{-1, restrict(iteration, space.results[k]), carried, space.reduction, kind};
      for (const auto& [dim, axes] : iteration) {
        if (find_dim(space.results[k], dim) < 0) home.partial.insert(axes.begin(), axes.end());
      }
      homes.push_back(std::move(home));
    }
    if (accumulates_directly(node, homes)) {
      instruction.accumulate = true;
      for (std::size_t k = 0; k < homes.size(); ++k) {
        const Value value{node.id, static_cast<int>(k)};
        instruction.outputs.push_back(accumulators_.buffer(*sinks_.at(value).front(), homes[k].partial));
      }
      builder_.task(kind).instructions.push_back(std::move(instruction));
      return;
    }
    for (std::size_t k = 0; k < homes.size(); ++k) {
      const Value value{node.id, static_cast<int>(k)};
      const TensorType& type = node.results[k];
      homes[k].buffer = builder_.add_buffer(label(value, kind), BufferKind::activation, type.dtype, type.dims,
                                            rules_.local_shape(type.dims, homes[k].layout));
      instruction.outputs.push_back(homes[k].buffer);
    }
    builder_.task(kind).instructions.push_back(std::move(instruction));
    for (std::size_t k = 0; k < homes.size(); ++k) define({node.id, static_cast<int>(k)}, std::move(homes[k]));
  }

  // --- results

  /// True if every result goes to one accumulator and nowhere else, as it is: then the kernel adds to it itself.
  [[nodiscard]] bool accumulates_directly(const Node& node, const std::vector<Home>& homes) const {
    for (std::size_t k = 0; k < homes.size(); ++k) {
      const Value value{node.id, static_cast<int>(k)};
      const auto sinks = sinks_.find(value);
      if (sinks == sinks_.end() || sinks->second.size() != 1 || uses_.contains(value)) return false;
      const Sink& sink = *sinks->second.front();
      if (sink.kind == Sink::Kind::output) return false;
      if (homes[k].layout != rules_.canonical(node.results[k].dims)) return false;
      if (node.results[k].dtype != accumulation_type(node.results[k].dtype)) return false;
    }
    return !homes.empty();
  }

  void define(Value value, Home home) {
    const auto sinks = sinks_.find(value);
    if (sinks != sinks_.end()) {
      for (const Sink* sink : sinks->second) add_to_sink(*sink, value, home);
    }
    home_[value] = std::move(home);
    if (uses_.contains(value) && !may_stay_partial(value)) complete(value);
  }

  /// A partial sum waits for its only reader if that is in the same task and can take it as it is.
  [[nodiscard]] bool may_stay_partial(Value value) const {
    const Home& home = home_.at(value);
    if (home.partial.empty()) return true;
    const auto& uses = uses_.at(value);
    if (home.reduction != Reduction::sum || uses.size() != 1) return false;
    const Node& reader = *uses.front().node;
    return task_of(reader) == home.task &&
           registry_.get(reader.op).iteration(graph_, reader).partial_operands.contains(uses.front().operand);
  }

  /// Brings a value to rest: whole, in its canonical layout, in its producer's task.
  void complete(Value value) {
    const auto found = home_.find(value);
    if (found == home_.end()) return;
    Home& home = found->second;
    const Layout canonical = rules_.canonical(graph_.type(value).dims);
    if (home.partial.empty() && home.layout == canonical) return;
    home.buffer = convert(value, home, canonical, {}, home.task);
    home.layout = canonical;
    home.partial.clear();
  }

  void add_to_sink(const Sink& sink, Value value, Home home) {
    if (sink.kind == Sink::Kind::output) {
      report(sink.name, value, home);
      return;
    }
    const Layout canonical = rules_.canonical(graph_.type(value).dims);
    if (home.layout != canonical) {
      // Axes that the parameter is sharded over are completed on the way to its layout, the others stay.
      AxisSet keep = home.partial;
      for (const auto& axes : canonical) {
        for (const Axis& axis : axes) keep.erase(axis);
      }
      home.buffer = convert(value, home, canonical, keep, home.task);
      home.partial = keep;
    }
    Instruction instruction = program_op("accumulate", label(value, home.task), {home.buffer}, {});
    instruction.outputs = {accumulators_.buffer(sink, home.partial)};
    builder_.task(home.task).instructions.push_back(std::move(instruction));
  }

  /// An output is read by the host after the step: whole on every rank.
  void report(const std::string& name, Value value, const Home& home) {
    const Layout whole(graph_.type(value).dims.size());
    const BufferId buffer = convert(value, home, whole, {}, home.task);
    builder_.buffer(buffer).persistent = true;
    builder_.program().reports[name] = buffer;
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
      if (at >= 0) return graph_.shape(node.operands[i])[static_cast<std::size_t>(at)];
    }
    return graph_.sizes.at(dim);
  }

  void require_every_axis_used() const {
    for (const MeshAxis& axis : rules_.mesh().axes()) {
      if (axis.size > 1 && !used_axes_.contains(axis.name)) {
        throw ConfigurationError("mesh axis '" + axis.name + "' of size " + std::to_string(axis.size) +
                                 " shards nothing: no dimension that its rules name is there and divisible by it");
      }
    }
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const LayoutRules& rules_;
  ProgramBuilder& builder_;
  std::map<Value, std::vector<Use>> uses_;
  std::map<Value, std::vector<const Sink*>> sinks_;
  std::map<Value, Home> home_;
  std::map<std::tuple<Value, Layout, Task::Kind>, BufferId> converted_;
  std::map<std::pair<std::string, Layout>, BufferId> loaded_;
  std::ptrdiff_t load_count_ = 0;
  std::set<Axis> used_axes_;
  Accumulators accumulators_;
};

}  // namespace

PartitionResult partition(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules,
                          ProgramBuilder& builder) {
  return Partitioner(graph, registry, rules, builder).run();
}

ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size, const std::vector<Axis>& axes) {
  ShardedDim sharded{dim, size, {}, dim == "batch"};
  for (const Axis& axis : axes) sharded.axes.push_back({axis, rules.distribution(dim, axis)});
  return sharded;
}

}  // namespace strata::host
