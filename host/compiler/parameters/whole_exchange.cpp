#include "compiler/parameters/whole_exchange.hpp"

#include <utility>

#include "strata/bucket_work.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::host {
namespace {

std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

}  // namespace

WholeExchange::WholeExchange(ProgramBuilder& builder, const Bucket& bucket, const Dims& apart)
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
    const bool stays = contains(apart, dim.dim);
    whole_.push_back(stays ? block.back() : dim.global_size);
    if (stays) continue;
    for (auto shard = dim.axes.rbegin(); shard != dim.axes.rend(); ++shard) add_level(*shard, i);
  }
  unpadded_ = element_count(block);
  merge_levels({bucket.piece_elements()}, block);
}

std::vector<Axis> WholeExchange::axes() const {
  std::vector<Axis> axes;
  for (const Level& level : levels_) axes.push_back(level.shard.axis);
  return axes;
}

BufferId WholeExchange::gather(BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const {
  BufferId current = stack;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const Level& level = levels_[i];
    const std::string name = label + " gathered over " + level.shard.axis;
    current = exchange(current, add_like(current, name), level, name, instructions);
    if (!level.is_contiguous()) {
      current = copy(Copy::Kind::unpack, level, current, name + " in order", label, instructions);
    }
    if (i + 1 == flat_levels_ && has_padding()) current = remove_padding(current, label, instructions);
  }
  return current;
}

void WholeExchange::scatter(BufferId whole, BufferId stack, const std::string& label,
                            std::vector<Instruction>& instructions) const {
  BufferId current = whole;
  for (std::size_t left = levels_.size(); left > 0; --left) {
    const Level& level = levels_[left - 1];
    if (left == flat_levels_ && has_padding()) current = restore_padding(current, label, instructions);
    const std::string name = label + " returned over " + level.shard.axis;
    if (!level.is_contiguous()) {
      current = copy(Copy::Kind::pack, level, current, name + " in parts", label, instructions);
    }
    current = exchange(current, left == 1 ? stack : add_like(current, name), level, name, instructions);
  }
}

std::int64_t WholeExchange::Level::outer() const { return parameters * product(shape, 0, dim); }

void WholeExchange::add_level(AxisShard shard, std::size_t dim) {
  parameters_ *= builder_.mesh().size(shard.axis);
  levels_.push_back({std::move(shard), dim, 1, {}});
}

void WholeExchange::merge_levels(Shape piece, const Shape& block) {
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

BufferId WholeExchange::exchange(BufferId source, BufferId target, const Level& level, const std::string& name,
                                 std::vector<Instruction>& instructions) const {
  instructions.push_back(
      builder_.collective({.kind = CollectiveKind::all_to_all, .axes = {level.shard.axis}}, source, target, name));
  return target;
}

BufferId WholeExchange::copy(Copy::Kind kind, const Level& level, BufferId source, const std::string& name,
                             const std::string& label, std::vector<Instruction>& instructions) const {
  const BufferId target = add_like(source, name);
  instructions.push_back({.name = label + " parts over " + level.shard.axis,
                          .work = Copy{.kind = kind,
                                       .outer = level.outer(),
                                       .size = level.shape[level.dim],
                                       .inner = product(level.shape, level.dim + 1, level.shape.size()),
                                       .axis = level.shard},
                          .inputs = {source},
                          .outputs = {target}});
  return target;
}

BufferId WholeExchange::remove_padding(BufferId padded, const std::string& label,
                                       std::vector<Instruction>& instructions) const {
  const std::string name = label + " without padding";
  const BufferId blocks = add(name, flat_parameters() * unpadded_, builder_.buffer(padded).dtype);
  copy_blocks(padded, padded_, blocks, unpadded_, name, instructions);
  return blocks;
}

BufferId WholeExchange::restore_padding(BufferId blocks, const std::string& label,
                                        std::vector<Instruction>& instructions) const {
  const std::string name = label + " with padding";
  const BufferId padded = add(name, flat_parameters() * padded_, builder_.buffer(blocks).dtype);
  instructions.push_back(flat_op(ops::kFillZero, name, {}, {padded}));
  copy_blocks(blocks, unpadded_, padded, padded_, name, instructions);
  return padded;
}

void WholeExchange::copy_blocks(BufferId source, std::int64_t source_stride, BufferId target,
                                std::int64_t target_stride, const std::string& label,
                                std::vector<Instruction>& instructions) const {
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

BufferId WholeExchange::add(const std::string& label, std::int64_t elements, DType type) const {
  return builder_.add_flat(label, BufferKind::communication, type, elements);
}

BufferId WholeExchange::add_like(BufferId buffer, const std::string& label) const {
  return add(label, builder_.buffer(buffer).elements(), builder_.buffer(buffer).dtype);
}

}  // namespace strata::host
