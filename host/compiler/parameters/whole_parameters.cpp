#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "compiler/parameters/bucket_update.hpp"
#include "compiler/parameters/whole_exchange.hpp"
#include "strata/bucket_work.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

const StoredParameter& parameter_of(const Program& program, const PendingUpdate& update) {
  return program.parameters[update.trained->bucket.parameters.front()];
}

/// The context in which an optimizer's function emits its ops.
class WholeParameter final : public WholeContext {
 public:
  WholeParameter(ProgramBuilder& builder, const StoredParameter& parameter, const Shape& shape, BufferId direction,
                 BufferId scale, std::vector<Instruction>& instructions)
      : builder_(builder), label_(parameter.name), direction_(direction), scale_(scale), instructions_(instructions) {
    for (std::size_t i = 0; i < parameter.dims.size(); ++i) {
      dims_.push_back(parameter.dims[i].dim);
      sizes_[dims_.back()] = shape[i];
    }
  }

  [[nodiscard]] const Dims& dims() const { return dims_; }

  /// Adds a state of the dimensions `dims`. \return its buffer.
  BufferId add_state(const std::string& name, const Dims& dims, DType type) {
    Dims names;
    for (const Dim& dim : dims) names.push_back(!contains(names, dim) ? dim : rename(dim, 1));
    const BufferId buffer =
        builder_.add_flat(label_ + " whole " + name, BufferKind::optimizer, type, elements(names), true);
    states_[name] = {buffer, std::move(names)};
    return buffer;
  }

  /// Applies `function`. \return the buffer of its result.
  BufferId apply(const WholeFunction& function) {
    const NamedBuffer result = function(*this, {direction_, dims_});
    for (const auto& [name, state] : states_) {
      if (changed_.contains(name)) continue;
      throw ConfigurationError("the function on the whole parameter does not change the state '" + name + "'");
    }
    require_known(result.buffer);
    if (result.dims == dims_ && builder_.buffer(result.buffer).dtype == dtype() && result.buffer != direction_) {
      return result.buffer;
    }
    throw ConfigurationError("the function on the whole parameter returns " +
                             to_string(TensorType{result.dims, builder_.buffer(result.buffer).dtype}) +
                             "; accepted: a new " + to_string(TensorType{dims_, dtype()}));
  }

  [[nodiscard]] std::int64_t size(const Dim& dim) const override {
    const auto found = sizes_.find(dim);
    if (found == sizes_.end()) throw ConfigurationError("the whole parameter has no dimension '" + dim + "'");
    return found->second;
  }

  [[nodiscard]] DType dtype() const override { return builder_.buffer(direction_).dtype; }

  Dim rename(const Dim& dim, int number) override {
    const Dim name = dim + "~" + std::to_string(number);
    sizes_[name] = size(dim);
    return name;
  }

  NamedBuffer emit(const std::string& op, const std::vector<NamedBuffer>& operands, const Dims& result,
                   Attributes attributes, std::optional<DType> type) override {
    Compute compute;
    compute.op = op;
    compute.attributes = std::move(attributes);
    Instruction instruction;
    instruction.name = label_ + " whole " + op;
    for (const NamedBuffer& operand : operands) {
      require_known(operand.buffer);
      add_dims(operand.dims, compute);
      if (builder_.buffer(operand.buffer).elements() != elements(operand.dims)) {
        throw ConfigurationError("op '" + op + "': an operand of the dimensions [" + join(operand.dims) +
                                 "] has another number of elements");
      }
      compute.operand_dims.push_back(operand.dims);
      instruction.inputs.push_back(operand.buffer);
    }
    add_dims(result, compute);
    compute.result_dims = {result};
    const BufferId made =
        builder_.add_flat(instruction.name, BufferKind::optimizer, type.value_or(dtype()), elements(result));
    instruction.outputs = {made};
    instruction.work = std::move(compute);
    push(std::move(instruction));
    return {made, result};
  }

  NamedBuffer state(const std::string& name) override {
    const auto found = states_.find(name);
    if (found == states_.end()) throw ConfigurationError("the whole parameter has no state '" + name + "'");
    return found->second;
  }

  void change_state(const std::string& name, const NamedBuffer& change) override {
    const NamedBuffer changed = state(name);
    require_known(change.buffer);
    const TensorType accepted{changed.dims, builder_.buffer(changed.buffer).dtype};
    const TensorType found{change.dims, builder_.buffer(change.buffer).dtype};
    if (found != accepted) {
      throw ConfigurationError("a change " + to_string(found) + " of the state '" + name +
                               "'; accepted: " + to_string(accepted));
    }
    // This update adds its operand, unless the scale of the gradient is not finite.
    Instruction instruction =
        flat_op(ops::kRunningAverageUpdate, label_ + " whole " + name, {change.buffer, scale_}, {changed.buffer},
                {{"micro_batches", 1.0},
                 {UpdateAttributes::kIsDirection, true},
                 {UpdateAttributes::kWeightDecay, 0.0},
                 {UpdateAttributes::kDecayElements, std::int64_t{0}}});
    instruction.as<Compute>()->iteration = {{"flat", builder_.buffer(changed.buffer).elements(), {}, false}};
    push(std::move(instruction));
    changed_.insert(name);
  }

  void every(std::int64_t period, const std::function<void()>& emit_ops) override {
    if (period < 1) throw ConfigurationError("ops every " + std::to_string(period) + " steps; accepted: 1 or more");
    if (!when_.is_always()) throw ConfigurationError("ops every some steps within others");
    when_.period = period;
    emit_ops();
    when_ = {};
  }

 private:
  void push(Instruction instruction) {
    instruction.when = when_;
    instructions_.push_back(std::move(instruction));
  }

  void add_dims(const Dims& dims, Compute& compute) const {
    for (const Dim& dim : dims) {
      const bool known = std::any_of(compute.iteration.begin(), compute.iteration.end(),
                                     [&](const ShardedDim& each) { return each.dim == dim; });
      if (!known) compute.iteration.push_back({dim, size(dim), {}, false});
    }
  }

  [[nodiscard]] std::int64_t elements(const Dims& dims) const {
    std::int64_t count = 1;
    for (const Dim& dim : dims) count *= size(dim);
    return count;
  }

  void require_known(BufferId buffer) const {
    if (buffer >= 0 && static_cast<std::size_t>(buffer) < builder_.program().buffers.size()) return;
    throw ConfigurationError("the whole parameter has no buffer %" + std::to_string(buffer));
  }

  ProgramBuilder& builder_;
  std::string label_;
  BufferId direction_;
  BufferId scale_;
  std::vector<Instruction>& instructions_;
  Dims dims_;
  std::map<Dim, std::int64_t> sizes_;
  std::map<std::string, NamedBuffer> states_;
  std::set<std::string> changed_;
  /// The steps that execute the next instructions.
  StepCondition when_;
};

/// Adds the states of the whole parameters of `updates`. A rank has those of the parameter that the exchange gives it:
/// the states called `state.name` of all parameters form a flat bucket with a piece per rank.
void add_states(const PlacedModel& model, const std::vector<PendingUpdate*>& updates, const WholeExchange& exchange,
                ProgramBuilder& builder, WholeParameter& whole) {
  const PendingUpdate& first = *updates.front();
  const StoredParameter parameter = parameter_of(builder.program(), first);
  for (const OptimizerState& state : model.groups.of(parameter.name).states) {
    if (!state.is_of_whole) continue;
    const Dims names = state.dims.value_or(whole.dims());
    const std::vector<ShardedDim> dims = dims_of(parameter, names, first.made.whole->apart);
    const BufferId buffer = whole.add_state(state.name, names, full_type(first.trained->bucket));
    const std::int64_t elements = builder.buffer(buffer).elements();
    for (std::size_t i = 0; i < updates.size(); ++i) {
      StoredParameter& owner = builder.program().parameters[updates[i]->trained->bucket.parameters.front()];
      owner.states[state.name] = buffer;
      owner.state_dims[state.name] = dims;
      if (exchange.parameters() == 1) continue;
      owner.state_sharding[state.name] = {exchange.axes(), exchange.parameters() * elements,
                                          static_cast<std::int64_t>(i) * elements, false};
    }
  }
}

/// Makes the pieces of all parameters parts of one buffer.
BufferId stack(ProgramBuilder& builder, const std::vector<PendingUpdate*>& updates, BufferId WholeRequest::*piece,
               std::int64_t count, const std::string& label) {
  const Buffer first = builder.buffer((*updates.front()->made.whole).*piece);
  const BufferId stacked = builder.add_flat(label, BufferKind::communication, first.dtype, count * first.elements());
  for (std::size_t i = 0; i < updates.size(); ++i) {
    builder.make_view((*updates[i]->made.whole).*piece, stacked, static_cast<std::int64_t>(i) * first.elements());
  }
  return stacked;
}

/// Zeroes the places of parameters that an exchange lacks.
void fill_rest(ProgramBuilder& builder, BufferId stacked, std::int64_t used, const std::string& label,
               std::vector<Instruction>& instructions) {
  const Buffer whole = builder.buffer(stacked);
  if (used == whole.elements()) return;
  const std::string name = label + " without parameter";
  const BufferId rest = builder.add_flat(name, whole.kind, whole.dtype, whole.elements() - used);
  builder.make_view(rest, stacked, used);
  instructions.push_back(flat_op(ops::kFillZero, name, {}, {rest}));
}

}  // namespace

bool can_exchange_together(const PlacedModel& model, const Program& program, const PendingUpdate& one,
                           const PendingUpdate& other) {
  const StoredParameter& a = parameter_of(program, one);
  const StoredParameter& b = parameter_of(program, other);
  return a.dims == b.dims && one.trained->bucket.kind() == other.trained->bucket.kind() &&
         one.made.whole->apart == other.made.whole->apart &&
         model.groups.of(a.name).parameter.contracted == model.groups.of(b.name).parameter.contracted;
}

std::int64_t updates_per_exchange(ProgramBuilder& builder, const PendingUpdate& update) {
  return WholeExchange(builder, update.trained->bucket, update.made.whole->apart).parameters();
}

void emit_together(const PlacedModel& model, const std::vector<PendingUpdate*>& updates, ProgramBuilder& builder,
                   std::vector<Instruction>& instructions) {
  const auto append = [&](std::vector<Instruction>& more) {
    std::move(more.begin(), more.end(), std::back_inserter(instructions));
  };
  const PendingUpdate& first = *updates.front();
  const Bucket& bucket = first.trained->bucket;
  const WholeRequest& whole = *first.made.whole;
  const WholeExchange exchange(builder, bucket, whole.apart);
  const std::string label = bucket.name + " whole";
  const bool is_exchanged = exchange.parameters() > 1;
  BufferId gathered = whole.direction;
  BufferId stacked = -1;
  if (is_exchanged) {
    stacked = stack(builder, updates, &WholeRequest::direction, exchange.parameters(), label + " directions");
    const auto used = static_cast<std::int64_t>(updates.size()) * bucket.piece_elements();
    fill_rest(builder, stacked, used, label, instructions);
  }
  for (PendingUpdate* each : updates) append(each->made.before);
  if (is_exchanged) gathered = exchange.gather(stacked, label, instructions);
  const PluginOrigin& origin = model.request.optimizer.groups.at(static_cast<std::size_t>(bucket.group)).origin;
  WholeParameter parameter(builder, parameter_of(builder.program(), first), exchange.shape(), gathered, whole.scale,
                           instructions);
  add_states(model, updates, exchange, builder, parameter);
  const BufferId result = call_plugin(origin, "update", [&] { return parameter.apply(whole.function); });
  if (is_exchanged) {
    const BufferId returned = stack(builder, updates, &WholeRequest::result, exchange.parameters(), label + " results");
    exchange.scatter(result, returned, label, instructions);
  } else {
    builder.make_view(whole.result, result, 0);
  }
  for (PendingUpdate* each : updates) append(each->made.after);
}

}  // namespace strata::host
