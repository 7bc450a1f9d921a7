#include "compiler/parameters/whole_parameters.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

const StoredParameter& parameter_of(const ProgramBuilder& builder, const PendingUpdate& update) {
  return builder.program().parameters[update.trained->bucket.parameters.front()];
}

/// The context in which an optimizer's function emits its ops.
class WholeParameter final : public WholeContext {
 public:
  WholeParameter(ProgramBuilder& builder, const StoredParameter& parameter, const Shape& shape, BufferId direction,
                 std::vector<Instruction>& instructions)
      : builder_(builder), label_(parameter.name), direction_(direction), instructions_(instructions) {
    for (std::size_t i = 0; i < parameter.dims.size(); ++i) {
      dims_.push_back(parameter.dims[i].dim);
      sizes_[dims_.back()] = shape[i];
    }
  }

  /// Applies `function`. \return the buffer of its result.
  BufferId apply(const WholeFunction& function) {
    const NamedBuffer result = function(*this, {direction_, dims_});
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
    instructions_.push_back(std::move(instruction));
    return {made, result};
  }

 private:
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
  std::vector<Instruction>& instructions_;
  Dims dims_;
  std::map<Dim, std::int64_t> sizes_;
};

void append(std::vector<Instruction>& instructions, std::vector<Instruction>& more) {
  instructions.insert(instructions.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
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
  const Buffer of = builder.buffer(stacked);
  if (used == of.elements()) return;
  const BufferId rest = builder.add_flat(label + " without parameter", of.kind, of.dtype, of.elements() - used);
  builder.make_view(rest, stacked, used);
  instructions.push_back(flat_op(ops::kFillZero, label + " without parameter", {}, {rest}));
}

}  // namespace

bool can_exchange_together(const ProgramBuilder& builder, const PendingUpdate& a, const PendingUpdate& b,
                           const UpdateRequest& request) {
  const StoredParameter& one = parameter_of(builder, a);
  const StoredParameter& other = parameter_of(builder, b);
  return one.dims == other.dims && BucketMaker::is_alike(a.trained->bucket, b.trained->bucket) &&
         a.made.whole->apart == b.made.whole->apart &&
         request.groups.of(one.name).parameter.contracted == request.groups.of(other.name).parameter.contracted;
}

std::int64_t updates_per_exchange(ProgramBuilder& builder, const PendingUpdate& update) {
  return WholeExchange(builder, update.trained->bucket, update.made.whole->apart).parameters();
}

void emit_together(ProgramBuilder& builder, const std::vector<PendingUpdate*>& updates, const UpdateRequest& request,
                   std::vector<Instruction>& instructions) {
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
  for (PendingUpdate* each : updates) append(instructions, each->made.before);
  if (is_exchanged) gathered = exchange.gather(stacked, label, instructions);
  const PluginOrigin& origin = request.optimizer.groups.at(static_cast<std::size_t>(bucket.group)).origin;
  WholeParameter parameter(builder, parameter_of(builder, first), exchange.shape(), gathered, instructions);
  const BufferId result = call_plugin(origin, "update", [&] { return parameter.apply(whole.function); });
  if (is_exchanged) {
    const BufferId returned = stack(builder, updates, &WholeRequest::result, exchange.parameters(), label + " results");
    exchange.scatter(result, returned, label, instructions);
  } else {
    builder.make_view(whole.result, result, 0);
  }
  for (PendingUpdate* each : updates) append(instructions, each->made.after);
}

}  // namespace strata::host
