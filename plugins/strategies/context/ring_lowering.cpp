#include "ring_lowering.hpp"

#include <utility>

#include "strata/compiler_ops.hpp"

namespace context {

using namespace strata;

namespace {

const Dim kKeySequence = "kv_seq";
const Dim kSequence = "seq";

}  // namespace

RingLowering::RingLowering(LoweringContext& context, Axis axis)
    : context_(context), axis_(std::move(axis)), hops_(context.rules().mesh().size(axis_)) {}

// --- types and buffers

TensorType RingLowering::operand_type(int index) const {
  return context_.graph().type(context_.node().operands.at(static_cast<std::size_t>(index)));
}

TensorType RingLowering::result_type(int index) const {
  return context_.node().results.at(static_cast<std::size_t>(index));
}

TensorType RingLowering::accumulated(const TensorType& type) {
  return {type.dims, type.dtype == DType::f64 ? DType::f64 : DType::f32};
}

Layout RingLowering::layout(const Dims& dims) const {
  Layout layout;
  for (const Dim& dim : dims) {
    layout.push_back(dim == kKeySequence ? std::vector<Axis>{axis_} : context_.iteration().at(dim));
  }
  return layout;
}

BufferId RingLowering::operand(int index) {
  return context_.operand(index, layout(context_.space().operands.at(static_cast<std::size_t>(index))));
}

BufferId RingLowering::like(const Dims& iteration_dims, const std::string& what, const TensorType& type) {
  return context_.add_buffer(label(what), BufferKind::activation, type,
                             context_.rules().local_shape(type.dims, layout(iteration_dims)));
}

BufferId RingLowering::like_operand(const std::string& what, int index, const TensorType& type) {
  return like(context_.space().operands.at(static_cast<std::size_t>(index)), what, type);
}

BufferId RingLowering::like_result(const std::string& what, int index, const TensorType& type) {
  return like(context_.space().results.at(static_cast<std::size_t>(index)), what, type);
}

std::string RingLowering::label(const std::string& what) const {
  return context_.node().name + "." + context_.node().op + " " + what;
}

// --- kernels

std::vector<ShardedDim> RingLowering::iteration(int hop) const {
  std::vector<ShardedDim> dims;
  for (const Dim& dim : context_.space().dims()) {
    if (dim != kKeySequence) {
      dims.push_back(context_.sharded_dim(dim, context_.graph().sizes.at(dim), context_.iteration().at(dim)));
      continue;
    }
    // Keys have the same sharding as queries.
    ShardedDim keys = context_.sharded_dim(kSequence, context_.graph().sizes.at(kSequence), {axis_});
    keys.dim = kKeySequence;
    keys.axes.front().shift = -hop;
    dims.push_back(std::move(keys));
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
  const DType type = result_type(0).dtype;
  const DType wanted = accumulated(result_type(0)).dtype;
  if (type != wanted) work.attributes.set("dtype", std::string(to_string(wanted)));
  work.operand_dims = context_.space().operands;
  work.result_dims = context_.space().results;
  work.iteration = iteration(hop);
  context_.emit(instruction(std::move(work), std::move(inputs), std::move(outputs), std::move(waits)));
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

void RingLowering::merge(std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
  const std::vector<Dims>& dims = context_.space().results;
  Compute work{.op = "attention_merge"};
  work.operand_dims = {dims.at(0), dims.at(1), dims.at(0), dims.at(1)};
  work.result_dims = dims;
  work.iteration = iteration(0);
  context_.emit(instruction(std::move(work), std::move(inputs), std::move(outputs), {}));
}

// --- messages

/// Sends and receives alternate, so a channel capacity of one message suffices.
void RingLowering::pass_on(const std::string& what, BufferId from, BufferId into, std::vector<BufferId> waits) {
  const std::string name = label(what);
  const std::uint64_t id = context_.communication_id(name);
  const Peer next{axis_, 1, true};
  const Peer previous{axis_, -1, true};
  context_.emit({.name = name, .work = Send{next, id}, .inputs = {from}, .waits = std::move(waits)});
  context_.emit({.name = name, .work = Receive{previous, id}, .outputs = {into}});
}

// --- results

void RingLowering::define(int index, BufferId buffer) {
  const Dims& dims = context_.space().results.at(static_cast<std::size_t>(index));
  const TensorType type = result_type(index);
  if (type.dtype != accumulated(type).dtype) {
    const BufferId rounded = like_result("result " + std::to_string(index), index, type);
    Compute cast = elementwise(ops::kCast, index, 1);
    cast.attributes.set("dtype", std::string(to_string(type.dtype)));
    context_.emit(instruction(std::move(cast), {buffer}, {rounded}, {}));
    buffer = rounded;
  }
  AxisSet partial;
  for (const auto& [dim, axes] : context_.iteration()) {
    if (find_dim(dims, dim) < 0) partial.insert(axes.begin(), axes.end());
  }
  partial.erase(axis_);
  context_.define(index, buffer, layout(dims), partial);
}

}  // namespace context
