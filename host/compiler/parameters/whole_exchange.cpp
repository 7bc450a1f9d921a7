#include "compiler/parameters/whole_exchange.hpp"

#include <algorithm>
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
    : builder_(builder), piece_(bucket.piece_elements()), padded_(bucket.elements) {
  if (bucket.pieces > 1) {
    const std::vector<Axis>& axes = bucket.storage.axes;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) flat_levels_.push_back({{*axis}, -1});
  }
  const StoredParameter& parameter = builder.program().parameters[bucket.parameters.front()];
  for (std::size_t i = 0; i < parameter.dims.size(); ++i) {
    const ShardedDim& dim = parameter.dims[i];
    std::int64_t pieces = 1;
    for (const AxisShard& shard : dim.axes) pieces *= builder.mesh().size(shard.axis);
    block_.push_back(dim.global_size / pieces);
    const bool stays = find_dim(apart, dim.dim) >= 0;
    whole_.push_back(stays ? block_.back() : dim.global_size);
    if (stays) continue;
    for (auto shard = dim.axes.rbegin(); shard != dim.axes.rend(); ++shard) {
      block_levels_.push_back({*shard, static_cast<int>(i)});
    }
  }
  unpadded_ = element_count(block_);
  for (const auto* levels : {&flat_levels_, &block_levels_}) {
    for (const Level& level : *levels) parameters_ *= builder.mesh().size(level.shard.axis);
  }
}

WholeExchange::Stage WholeExchange::after(const Stage& stage, const Level& level) const {
  const int ranks = builder_.mesh().size(level.shard.axis);
  Stage next{stage.parameters / ranks, stage.shape};
  next.shape[level.dim < 0 ? 0 : static_cast<std::size_t>(level.dim)] *= ranks;
  return next;
}

Instruction WholeExchange::copy(Copy::Kind kind, const Level& level, const Stage& merged,
                                const std::string& label) const {
  const std::size_t dim = level.dim < 0 ? 0 : static_cast<std::size_t>(level.dim);
  Copy copy;
  copy.kind = kind;
  copy.outer = merged.parameters * product(merged.shape, 0, dim);
  copy.size = merged.shape[dim];
  copy.inner = product(merged.shape, dim + 1, merged.shape.size());
  copy.axis = level.shard;
  Instruction instruction;
  instruction.name = label + " parts over " + level.shard.axis;
  instruction.work = std::move(copy);
  return instruction;
}

bool WholeExchange::is_contiguous(const Level& level, const Stage& merged) const {
  const std::size_t dim = level.dim < 0 ? 0 : static_cast<std::size_t>(level.dim);
  return level.shard.distribution == Distribution::block && merged.parameters * product(merged.shape, 0, dim) == 1;
}

BufferId WholeExchange::add(const std::string& label, std::int64_t elements, DType type) const {
  return builder_.add_flat(label, BufferKind::communication, type, elements);
}

BufferId WholeExchange::gather(BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const {
  const DType type = builder_.buffer(stack).dtype;
  BufferId current = stack;
  const auto exchange = [&](const Level& level, Stage& stage) {
    const std::int64_t elements = builder_.buffer(current).elements();
    const std::string of_axis = label + " gathered over " + level.shard.axis;
    const BufferId received = add(of_axis, elements, type);
    instructions.push_back(builder_.collective({.kind = CollectiveKind::all_to_all, .axes = {level.shard.axis}},
                                               current, received, of_axis));
    stage = after(stage, level);
    current = received;
    if (is_contiguous(level, stage)) return;
    Instruction unpack = copy(Copy::Kind::unpack, level, stage, label);
    unpack.inputs = {received};
    current = add(of_axis + " in order", elements, type);
    unpack.outputs = {current};
    instructions.push_back(std::move(unpack));
  };
  Stage stage{parameters_, {piece_}};
  for (const Level& level : flat_levels_) exchange(level, stage);
  if (has_padding()) current = remove_padding(current, stage, label, instructions);
  stage.shape = block_;
  for (const Level& level : block_levels_) exchange(level, stage);
  return current;
}

void WholeExchange::scatter(BufferId whole, BufferId stack, const std::string& label,
                            std::vector<Instruction>& instructions) const {
  const DType type = builder_.buffer(stack).dtype;
  // The stages of gather(), in order.
  std::vector<std::pair<Level, Stage>> levels;
  Stage stage{parameters_, {piece_}};
  for (const Level& level : flat_levels_) levels.emplace_back(level, stage = after(stage, level));
  const Stage flat = stage;
  stage.shape = block_;
  for (const Level& level : block_levels_) levels.emplace_back(level, stage = after(stage, level));

  BufferId current = whole;
  for (std::size_t left = levels.size(); left > 0; --left) {
    const auto& [level, merged] = levels[left - 1];
    if (left == flat_levels_.size() && has_padding()) current = restore_padding(current, flat, label, instructions);
    const std::int64_t elements = builder_.buffer(current).elements();
    const std::string of_axis = label + " returned over " + level.shard.axis;
    if (!is_contiguous(level, merged)) {
      Instruction pack = copy(Copy::Kind::pack, level, merged, label);
      pack.inputs = {current};
      current = add(of_axis + " in parts", elements, type);
      pack.outputs = {current};
      instructions.push_back(std::move(pack));
    }
    const BufferId received = left == 1 ? stack : add(of_axis, elements, type);
    instructions.push_back(builder_.collective({.kind = CollectiveKind::all_to_all, .axes = {level.shard.axis}},
                                               current, received, of_axis));
    current = received;
  }
}

BufferId WholeExchange::remove_padding(BufferId padded, const Stage& stage, const std::string& label,
                                       std::vector<Instruction>& instructions) const {
  const std::string name = label + " without padding";
  const BufferId blocks = add(name, stage.parameters * unpadded_, builder_.buffer(padded).dtype);
  copy_blocks({padded, padded_}, {blocks, unpadded_}, stage.parameters, name, instructions);
  return blocks;
}

BufferId WholeExchange::restore_padding(BufferId blocks, const Stage& stage, const std::string& label,
                                        std::vector<Instruction>& instructions) const {
  const std::string name = label + " with padding";
  const BufferId padded = add(name, stage.parameters * padded_, builder_.buffer(blocks).dtype);
  instructions.push_back(flat_op(ops::kFillZero, name, {}, {padded}));
  copy_blocks({blocks, unpadded_}, {padded, padded_}, stage.parameters, name, instructions);
  return padded;
}

void WholeExchange::copy_blocks(const Blocks& from, const Blocks& to, std::int64_t count, const std::string& label,
                                std::vector<Instruction>& instructions) const {
  const auto block = [&](const Blocks& blocks, std::int64_t index) {
    const BufferId view = add(label + " block", unpadded_, builder_.buffer(blocks.buffer).dtype);
    builder_.make_view(view, blocks.buffer, index * blocks.stride);
    return view;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const BufferId source = block(from, i);
    instructions.push_back(weighted_sum(label, {{1, source}}, block(to, i)));
  }
}

}  // namespace strata::host
