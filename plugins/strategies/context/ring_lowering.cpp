#include "ring_lowering.hpp"

#include <utility>

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
    // The keys are dealt as the queries are.
    ShardedDim keys = context_.sharded_dim(kSequence, context_.graph().sizes.at(kSequence), {axis_});
    keys.dim = kKeySequence;
    keys.axes.front().shift = -hop;
    dims.push_back(std::move(keys));
  }
  return dims;
}

/// Named as the node: the name keys the random numbers.
Instruction RingLowering::instruction(const std::string& op) const {
  Instruction instruction;
  instruction.kind = InstructionKind::compute;
  instruction.name = context_.node().name;
  instruction.op = op;
  return instruction;
}

void RingLowering::compute(int hop, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                           std::vector<BufferId> waits) {
  Instruction compute = instruction(context_.node().op);
  compute.attributes = context_.node().attributes;
  const DType type = result_type(0).dtype;
  const DType wanted = accumulated(result_type(0)).dtype;
  if (type != wanted) compute.attributes.set("dtype", std::string(to_string(wanted)));
  compute.inputs = std::move(inputs);
  compute.outputs = std::move(outputs);
  compute.operand_dims = context_.space().operands;
  compute.result_dims = context_.space().results;
  compute.iteration = iteration(hop);
  compute.waits = std::move(waits);
  context_.emit(std::move(compute));
}

Instruction RingLowering::elementwise(const std::string& op, int index, std::vector<BufferId> inputs,
                                      BufferId output) const {
  const Dims& dims = context_.space().results.at(static_cast<std::size_t>(index));
  Instruction elementwise = instruction(op);
  elementwise.operand_dims.assign(inputs.size(), dims);
  elementwise.result_dims = {dims};
  elementwise.inputs = std::move(inputs);
  elementwise.outputs = {output};
  elementwise.iteration = iteration(0);
  return elementwise;
}

void RingLowering::add(int index, std::vector<BufferId> inputs, BufferId output, std::vector<BufferId> waits) {
  Instruction sum = elementwise("sum", index, std::move(inputs), output);
  sum.waits = std::move(waits);
  context_.emit(std::move(sum));
}

void RingLowering::merge(std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
  const std::vector<Dims>& dims = context_.space().results;
  Instruction merge = instruction("attention_merge");
  merge.operand_dims = {dims.at(0), dims.at(1), dims.at(0), dims.at(1)};
  merge.result_dims = dims;
  merge.inputs = std::move(inputs);
  merge.outputs = std::move(outputs);
  merge.iteration = iteration(0);
  context_.emit(std::move(merge));
}

// --- messages

/// Send and receive alternate, so that a channel of one message is enough.
void RingLowering::pass_on(const std::string& what, BufferId from, BufferId into, std::vector<BufferId> waits) {
  Instruction send;
  send.kind = InstructionKind::send;
  send.name = label(what);
  send.inputs = {from};
  send.axes = {axis_};
  send.peer = 1;
  send.relative_peer = true;
  send.id = context_.communication_id(send.name);
  send.waits = std::move(waits);
  Instruction receive = send;
  receive.kind = InstructionKind::receive;
  receive.inputs.clear();
  receive.outputs = {into};
  receive.peer = -1;
  receive.waits.clear();
  context_.emit(std::move(send));
  context_.emit(std::move(receive));
}

// --- results

void RingLowering::define(int index, BufferId buffer) {
  const Dims& dims = context_.space().results.at(static_cast<std::size_t>(index));
  const TensorType type = result_type(index);
  if (type.dtype != accumulated(type).dtype) {
    const BufferId rounded = like_result("result " + std::to_string(index), index, type);
    Instruction cast = elementwise("cast", index, {buffer}, rounded);
    cast.attributes.set("dtype", std::string(to_string(type.dtype)));
    context_.emit(std::move(cast));
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
