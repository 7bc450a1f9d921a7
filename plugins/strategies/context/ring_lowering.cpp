#include "ring_lowering.hpp"

#include <utility>

#include "strata/compiler_ops.hpp"

namespace context {

using namespace strata;

namespace {

/// True if a query sees a key that is less than `window` positions before it, or the key at its own position.
bool sees_some(const IndexMap& queries, const IndexMap& keys, std::int64_t window) {
  for (const IndexSegment& query : queries.segments) {
    for (const IndexSegment& key : keys.segments) {
      const std::int64_t nearest = query.global_begin - (key.global_begin + key.length - 1);
      const std::int64_t farthest = query.global_begin + query.length - 1 - key.global_begin;
      if (farthest >= 0 && nearest < window) return true;
    }
  }
  return false;
}

/// One rank for every piece of `dim`: the first one along the axes that do not shard it.
std::vector<Coordinates> places_of(const ShardedDim& dim, const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const AxisShard& shard : dim.axes) axes.push_back(shard.axis);
  std::vector<Coordinates> places;
  for (const int rank : mesh.group(0, axes)) places.push_back(mesh.coordinates(rank));
  return places;
}

}  // namespace

RingLowering::RingLowering(LoweringContext& context, Axis axis)
    : context_(context), axis_(std::move(axis)), ranks_(context.rules().mesh().size(axis_)), hops_(useful_hops()) {}

/// Without a window, every hop is useful: the last queries see all keys.
std::vector<int> RingLowering::useful_hops() const {
  const std::int64_t window = mixing().window;
  const Mesh& mesh = context_.rules().mesh();
  const Dim& dim = mixing().queries;
  const ShardedDim queries = context_.sharded_dim(dim, size_of(dim), context_.iteration().at(dim));
  const std::vector<Coordinates> places = window == 0 ? std::vector<Coordinates>{} : places_of(queries, mesh);
  std::vector<IndexMap> query_maps;
  for (const Coordinates& place : places) query_maps.push_back(index_map(queries, mesh, place));
  std::vector<int> hops;
  for (int hop = 0; hop < ranks_; ++hop) {
    const ShardedDim of_hop = keys(hop);
    bool is_useful = window == 0 || hop == 0;
    for (std::size_t i = 0; i < places.size() && !is_useful; ++i) {
      is_useful = sees_some(query_maps[i], index_map(of_hop, mesh, places[i]), window);
    }
    if (is_useful) hops.push_back(hop);
  }
  return hops;
}

// --- operands and results

std::vector<int> RingLowering::key_operands() const {
  std::vector<int> operands;
  for (int i = 0; const Dims& dims : context_.space().operands) {
    if (contains(dims, mixing().keys)) operands.push_back(i);
    ++i;
  }
  return operands;
}

bool RingLowering::is_along_keys(int result) const {
  return contains(context_.space().results.at(static_cast<std::size_t>(result)), mixing().keys);
}

Dim RingLowering::key_dim() const {
  const auto operand = static_cast<std::size_t>(key_operands().front());
  const int at = find_dim(context_.space().operands[operand], mixing().keys);
  return context_.graph().type(context_.node().operands[operand]).dims[static_cast<std::size_t>(at)];
}

std::int64_t RingLowering::size_of(const Dim& dim) const {
  const IterationSpace& space = context_.space();
  for (std::size_t i = 0; i < space.operands.size(); ++i) {
    const int at = find_dim(space.operands[i], dim);
    if (at >= 0) return context_.graph().shape(context_.node().operands[i])[static_cast<std::size_t>(at)];
  }
  return context_.graph().sizes.at(dim);
}

const TensorType& RingLowering::result_type(int index) const {
  return context_.node().results.at(static_cast<std::size_t>(index));
}

TensorType RingLowering::accumulated_type(int index) const {
  const TensorType& type = result_type(index);
  return {type.dims, type.dtype == DType::f64 ? DType::f64 : DType::f32};
}

Layout RingLowering::layout(const Dims& dims) const {
  Layout layout;
  for (const Dim& dim : dims) {
    layout.push_back(dim == mixing().keys ? std::vector<Axis>{axis_} : context_.iteration().at(dim));
  }
  return layout;
}

std::vector<BufferId> RingLowering::operands() {
  std::vector<BufferId> buffers;
  for (const Dims& dims : context_.space().operands) {
    buffers.push_back(context_.operand(static_cast<int>(buffers.size()), layout(dims)));
  }
  return buffers;
}

BufferId RingLowering::like(const Dims& iteration_dims, const std::string& what, const TensorType& type) {
  return context_.add_buffer(label(what), BufferKind::activation, type,
                             context_.rules().local_shape(type.dims, layout(iteration_dims)));
}

BufferId RingLowering::like_operand(const std::string& what, int index) {
  const auto at = static_cast<std::size_t>(index);
  return like(context_.space().operands.at(at), what, context_.graph().type(context_.node().operands.at(at)));
}

BufferId RingLowering::like_result(const std::string& what, int index) {
  return like(context_.space().results.at(static_cast<std::size_t>(index)), what, accumulated_type(index));
}

std::string RingLowering::label(const std::string& what) const {
  return context_.node().name + "." + context_.node().op + " " + what;
}

// --- kernels

ShardedDim RingLowering::keys(int hop) const {
  const Dim dim = key_dim();
  ShardedDim keys = context_.sharded_dim(dim, context_.graph().sizes.at(dim), {axis_});
  keys.dim = mixing().keys;
  keys.axes.front().shift = -hop;
  return keys;
}

std::vector<ShardedDim> RingLowering::iteration(int hop) const {
  std::vector<ShardedDim> dims;
  for (const Dim& dim : context_.space().dims()) {
    dims.push_back(dim == mixing().keys ? keys(hop)
                                        : context_.sharded_dim(dim, size_of(dim), context_.iteration().at(dim)));
  }
  return dims;
}

Instruction RingLowering::instruction(Compute work, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                                      std::vector<BufferId> waits) const {
  // The name is the node's, because it keys the random numbers.
  return {.name = context_.node().name,
          .work = std::move(work),
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .waits = std::move(waits)};
}

void RingLowering::compute(int hop, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                           std::vector<BufferId> waits) {
  Compute work{.op = context_.node().op, .attributes = context_.node().attributes};
  const DType wanted = accumulated_type(0).dtype;
  if (mixing().takes_result_type && result_type(0).dtype != wanted) {
    work.attributes.set("dtype", std::string(to_string(wanted)));
  }
  work.operand_dims = context_.space().operands;
  work.result_dims = context_.space().results;
  work.iteration = iteration(hop);
  std::vector<BufferId> written = outputs;
  for (int i = 0; i < result_count() && !mixing().takes_result_type; ++i) {
    if (result_type(i).dtype == accumulated_type(i).dtype) continue;
    const auto at = static_cast<std::size_t>(i);
    written[at] = like(context_.space().results[at],
                       "result " + std::to_string(i) + " of hop " + std::to_string(hop) + " in short", result_type(i));
  }
  context_.emit(instruction(std::move(work), std::move(inputs), written, std::move(waits)));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (written[i] != outputs[i])
      cast(static_cast<int>(i), written[i], outputs[i], accumulated_type(static_cast<int>(i)).dtype);
  }
}

void RingLowering::cast(int index, BufferId from, BufferId into, DType dtype) {
  Compute work = elementwise(ops::kCast, index, 1);
  work.attributes.set("dtype", std::string(to_string(dtype)));
  context_.emit(instruction(std::move(work), {from}, {into}, {}));
}

Compute RingLowering::elementwise(const std::string& op, int index, std::size_t operands) const {
  const Dims& dims = context_.space().results.at(static_cast<std::size_t>(index));
  Compute work{.op = op};
  work.operand_dims.assign(operands, dims);
  work.result_dims = {dims};
  work.iteration = iteration(0);
  return work;
}

void RingLowering::add(int index, std::vector<BufferId> inputs, BufferId output, std::vector<BufferId> waits) {
  Compute work = elementwise(ops::kSum, index, inputs.size());
  context_.emit(instruction(std::move(work), std::move(inputs), {output}, std::move(waits)));
}

void RingLowering::merge(const std::vector<BufferId>& one, const std::vector<BufferId>& other,
                         const std::vector<BufferId>& merged) {
  const auto mean = static_cast<std::size_t>(mixing().mean);
  const auto logarithm = static_cast<std::size_t>(mixing().logarithm);
  const std::vector<Dims>& dims = context_.space().results;
  Compute work{.op = "attention_merge"};
  work.operand_dims = {dims[mean], dims[logarithm], dims[mean], dims[logarithm]};
  work.result_dims = {dims[mean], dims[logarithm]};
  work.iteration = iteration(0);
  context_.emit(instruction(std::move(work), {one[mean], one[logarithm], other[mean], other[logarithm]},
                            {merged[mean], merged[logarithm]}, {}));
}

// --- messages

/// Sends and receives alternate, so a channel capacity of one message suffices.
void RingLowering::pass_on(const std::string& what, int distance, BufferId from, BufferId into,
                           std::vector<BufferId> waits) {
  const std::string name = label(what);
  const std::uint64_t id = context_.communication_id(name);
  const Peer next{axis_, distance, true};
  const Peer previous{axis_, -distance, true};
  context_.emit({.name = name, .work = Send{next, id}, .inputs = {from}, .waits = std::move(waits)});
  context_.emit({.name = name, .work = Receive{previous, id}, .outputs = {into}});
}

// --- results

void RingLowering::define(int index, BufferId buffer) {
  const Dims& dims = context_.space().results.at(static_cast<std::size_t>(index));
  const TensorType& type = result_type(index);
  if (type.dtype != accumulated_type(index).dtype) {
    const BufferId rounded = like(dims, "result " + std::to_string(index), type);
    cast(index, buffer, rounded, type.dtype);
    buffer = rounded;
  }
  AxisSet partial;
  for (const auto& [dim, axes] : context_.iteration()) {
    if (!contains(dims, dim)) partial.insert(axes.begin(), axes.end());
  }
  // Results along the keys have met the queries of all ranks of the ring.
  if (is_along_keys(index)) partial.erase(axis_);
  context_.define(index, buffer, layout(dims), partial);
}

}  // namespace context
