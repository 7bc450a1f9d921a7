#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "compiler/parameters/bucket_update.hpp"
#include "strata/bucket_work.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

const StoredParameter& parameter_of(const Program& program, const PendingUpdate& update) {
  return program.parameters[update.trained->bucket.parameters.front()];
}

std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

/// The exchange that turns every rank's pieces of several parameters into whole parameters, each on another rank, and
/// back. All parameters have the same dimensions and storage.
///
/// Example: two ranks store halves of the matrices A and B. An all_to_all gives A to the first rank and B to the
/// second. Each sends and receives as much as one half. With two axes of two ranks, four matrices are exchanged along
/// one axis and then along the other.
class WholeExchange {
 public:
  /// For a bucket with one parameter. Dimensions in `apart` stay sharded.
  WholeExchange(ProgramBuilder& builder, const Bucket& bucket, const Dims& apart)
      : builder_(builder), padded_(bucket.elements) {
    if (bucket.pieces > 1) {
      for (auto axis = bucket.storage.axes.rbegin(); axis != bucket.storage.axes.rend(); ++axis) add_level({*axis}, 0);
    }
    flat_levels_ = levels_.size();
    Shape block;
    const StoredParameter& parameter = builder.program().parameters[bucket.parameters.front()];
    for (std::size_t i = 0; i < parameter.dims.size(); ++i) {
      const ShardedDim& dim = parameter.dims[i];
      std::int64_t pieces = 1;
      for (const AxisShard& shard : dim.axes) pieces *= builder.mesh().size(shard.axis);
      block.push_back(dim.global_size / pieces);
      const bool stays = find_dim(apart, dim.dim) >= 0;
      whole_.push_back(stays ? block.back() : dim.global_size);
      if (stays) continue;
      for (auto shard = dim.axes.rbegin(); shard != dim.axes.rend(); ++shard) add_level(*shard, i);
    }
    unpadded_ = element_count(block);
    merge_levels({bucket.piece_elements()}, block);
  }

  /// Number of parameters that are exchanged together: 1 if every rank has the parameter whole already.
  [[nodiscard]] std::int64_t parameters() const { return parameters_; }
  /// Sizes of the gathered parameter. Dimensions that are kept apart have the size of a rank's shard.
  [[nodiscard]] const Shape& shape() const { return whole_; }

  /// `stack`: this rank's pieces of all parameters, one after the other. \return the buffer of the parameter that this
  /// rank has whole.
  BufferId gather(BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const {
    BufferId current = stack;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      const std::string name = label + " gathered over " + level.shard.axis;
      current = exchange(current, add_like(current, name), level, name, instructions);
      if (!is_contiguous(level)) {
        current = copy(Copy::Kind::unpack, level, current, name + " in order", label, instructions);
      }
      if (i + 1 == flat_levels_ && has_padding()) current = remove_padding(current, label, instructions);
    }
    return current;
  }

  /// The inverse of gather(): writes the pieces of all parameters to `stack`.
  void scatter(BufferId whole, BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const {
    BufferId current = whole;
    for (std::size_t left = levels_.size(); left > 0; --left) {
      const Level& level = levels_[left - 1];
      if (left == flat_levels_ && has_padding()) current = restore_padding(current, label, instructions);
      const std::string name = label + " returned over " + level.shard.axis;
      if (!is_contiguous(level)) {
        current = copy(Copy::Kind::pack, level, current, name + " in parts", label, instructions);
      }
      current = exchange(current, left == 1 ? stack : add_like(current, name), level, name, instructions);
    }
  }

 private:
  /// The exchange along one axis, and what a rank has after it of each parameter.
  struct Level {
    AxisShard shard;
    /// The dimension of `shape` that the exchange completes.
    std::size_t dim = 0;
    std::int64_t parameters = 1;
    Shape shape;
  };

  void add_level(AxisShard shard, std::size_t dim) {
    parameters_ *= builder_.mesh().size(shard.axis);
    levels_.push_back({std::move(shard), dim, 1, {}});
  }

  /// `piece`: what a rank has before the first exchange. `block`: before the first that completes a dimension.
  void merge_levels(Shape piece, const Shape& block) {
    std::int64_t parameters = parameters_;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      if (i == flat_levels_) piece = block;
      const int ranks = builder_.mesh().size(levels_[i].shard.axis);
      parameters /= ranks;
      piece[levels_[i].dim] *= ranks;
      levels_[i].parameters = parameters;
      levels_[i].shape = piece;
    }
  }

  /// Elements before `dim` in what the level merges.
  [[nodiscard]] static std::int64_t outer(const Level& level) {
    return level.parameters * product(level.shape, 0, level.dim);
  }
  [[nodiscard]] static bool is_contiguous(const Level& level) {
    return level.shard.distribution == Distribution::block && outer(level) == 1;
  }

  BufferId exchange(BufferId source, BufferId target, const Level& level, const std::string& name,
                    std::vector<Instruction>& instructions) const {
    instructions.push_back(
        builder_.collective({.kind = CollectiveKind::all_to_all, .axes = {level.shard.axis}}, source, target, name));
    return target;
  }

  /// Moves the ranks' parts of a level to their positions (unpack), or back (pack), in a new buffer.
  BufferId copy(Copy::Kind kind, const Level& level, BufferId source, const std::string& name, const std::string& label,
                std::vector<Instruction>& instructions) const {
    const BufferId target = add_like(source, name);
    instructions.push_back({.name = label + " parts over " + level.shard.axis,
                            .work = Copy{.kind = kind,
                                         .outer = outer(level),
                                         .size = level.shape[level.dim],
                                         .inner = product(level.shape, level.dim + 1, level.shape.size()),
                                         .axis = level.shard},
                            .inputs = {source},
                            .outputs = {target}});
    return target;
  }

  /// True if the padding of the flat bucket must go before the parameters are blocks.
  [[nodiscard]] bool has_padding() const { return padded_ > unpadded_; }
  [[nodiscard]] std::int64_t flat_parameters() const { return levels_[flat_levels_ - 1].parameters; }

  BufferId remove_padding(BufferId padded, const std::string& label, std::vector<Instruction>& instructions) const {
    const std::string name = label + " without padding";
    const BufferId blocks = add(name, flat_parameters() * unpadded_, builder_.buffer(padded).dtype);
    copy_blocks(padded, padded_, blocks, unpadded_, name, instructions);
    return blocks;
  }

  BufferId restore_padding(BufferId blocks, const std::string& label, std::vector<Instruction>& instructions) const {
    const std::string name = label + " with padding";
    const BufferId padded = add(name, flat_parameters() * padded_, builder_.buffer(blocks).dtype);
    instructions.push_back(flat_op(ops::kFillZero, name, {}, {padded}));
    copy_blocks(blocks, unpadded_, padded, padded_, name, instructions);
    return padded;
  }

  /// Copies the blocks of all parameters, which lie a stride apart.
  void copy_blocks(BufferId source, std::int64_t source_stride, BufferId target, std::int64_t target_stride,
                   const std::string& label, std::vector<Instruction>& instructions) const {
    const auto block = [&](BufferId buffer, std::int64_t begin) {
      const BufferId view = add(label + " block", unpadded_, builder_.buffer(buffer).dtype);
      builder_.make_view(view, buffer, begin);
      return view;
    };
    for (std::int64_t i = 0; i < flat_parameters(); ++i) {
      const BufferId from = block(source, i * source_stride);
      instructions.push_back(weighted_sum(label, {{1, from}}, block(target, i * target_stride)));
    }
  }

  [[nodiscard]] BufferId add(const std::string& label, std::int64_t elements, DType type) const {
    return builder_.add_flat(label, BufferKind::communication, type, elements);
  }
  [[nodiscard]] BufferId add_like(BufferId buffer, const std::string& label) const {
    return add(label, builder_.buffer(buffer).elements(), builder_.buffer(buffer).dtype);
  }

  ProgramBuilder& builder_;
  /// Innermost axis first: the axes that deal pieces of the flat bucket, then those of each dimension.
  std::vector<Level> levels_;
  std::size_t flat_levels_ = 0;
  std::int64_t parameters_ = 1;
  /// Elements of a rank's block of the parameter in the flat bucket, with and without padding.
  std::int64_t padded_ = 0;
  std::int64_t unpadded_ = 0;
  /// Shape of the gathered parameter.
  Shape whole_;
};

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
  WholeParameter parameter(builder, parameter_of(builder.program(), first), exchange.shape(), gathered, instructions);
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
