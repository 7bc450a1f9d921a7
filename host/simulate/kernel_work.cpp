#include "simulate/kernel_work.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace strata::host {
namespace {

/// A graph with a single node: the op of an instruction with the local sizes of its buffers.
struct LocalNode {
  Graph graph;
  int node = -1;

  [[nodiscard]] const Node& get() const { return graph.node(node); }
};

/// The dimensions of a buffer of a Compute. Buffers without named dimensions, such as buckets, get a dimension each.
Dims dims_of(const std::vector<Dims>& names, std::size_t index, const Buffer& buffer, const std::string& otherwise) {
  if (index < names.size() && names[index].size() == buffer.shape.size()) return names[index];
  Dims dims;
  for (std::size_t i = 0; i < buffer.shape.size(); ++i) dims.push_back(otherwise + "." + std::to_string(i));
  return dims;
}

TensorType type_of(DimSizes& sizes, const Buffer& buffer, const Dims& dims) {
  for (std::size_t i = 0; i < dims.size(); ++i) sizes.insert_or_assign(dims[i], buffer.shape[i]);
  return {dims, buffer.dtype};
}

LocalNode local_node(const Program& program, const Instruction& instruction, const Compute& compute) {
  LocalNode local;
  Node node;
  node.op = compute.op;
  node.name = instruction.name;
  node.attributes = compute.attributes;
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Buffer& buffer = program.buffer(instruction.inputs[i]);
    const Dims dims = dims_of(compute.operand_dims, i, buffer, "operand" + std::to_string(i));
    Node leaf;
    leaf.op = "input";
    leaf.name = buffer.name;
    leaf.results = {type_of(local.graph.sizes, buffer, dims)};
    node.operands.push_back({local.graph.append(std::move(leaf)), 0});
  }
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    const Buffer& buffer = program.buffer(instruction.outputs[i]);
    const Dims dims = dims_of(compute.result_dims, i, buffer, "result" + std::to_string(i));
    node.results.push_back(type_of(local.graph.sizes, buffer, dims));
  }
  local.node = local.graph.append(std::move(node));
  return local;
}

bool has(const Dims& dims, const Dim& dim) { return find_dim(dims, dim) >= 0; }

/// Dimensions of both factors and the result are a batch. Those that the result lacks are contracted.
ProductShape product_shape(const LocalNode& local) {
  const Dims& left = local.graph.type(local.get().operands.at(0)).dims;
  const Dims& right = local.graph.type(local.get().operands.at(1)).dims;
  const Dims& result = local.get().results.at(0).dims;
  ProductShape shape;
  for (const Dim& dim : left) {
    std::int64_t& size = !has(result, dim) ? shape.depth : has(right, dim) ? shape.batch : shape.rows;
    size *= local.graph.sizes.at(dim);
  }
  for (const Dim& dim : right) {
    if (!has(left, dim)) shape.columns *= local.graph.sizes.at(dim);
  }
  return shape;
}

/// True for an op such as a convolution, which sums products of two operands in a short type.
bool sums_products(const OpDefinition& op, const Compute& compute) {
  return compute.operand_dims.size() == 2 && op.operand_precision(0) == OperandPrecision::low &&
         op.operand_precision(1) == OperandPrecision::low;
}

/// The matrix product with the FLOPs of such an op and as many results. Its columns are the dimensions that the second
/// operand and the result share: the channels of the result of a convolution.
ProductShape equal_product(const LocalNode& local, double flops) {
  const Dims& right = local.graph.type(local.get().operands.at(1)).dims;
  const Value result{local.node, 0};
  ProductShape shape;
  for (const Dim& dim : local.graph.type(result).dims) {
    std::int64_t& size = has(right, dim) ? shape.columns : shape.rows;
    size *= local.graph.sizes.at(dim);
  }
  const double elements = static_cast<double>(shape.rows) * static_cast<double>(shape.columns);
  shape.depth = std::max<std::int64_t>(1, std::llround(flops / (2 * elements)));
  return shape;
}

/// Products of the rows that an op does not skip, if every mark is as likely: the op counts those of whole tokens, and
/// a rank has a part of their marks. Each mark has a matrix of its own, in the first operand without rows.
void describe_routed(KernelWork& work, const Program& program, const Instruction& instruction, const Compute& compute,
                     const RoutedRows& routed) {
  const Dim& marks = compute.operand_dims.at(static_cast<std::size_t>(routed.marks)).back();
  for (const ShardedDim& each : compute.iteration) {
    if (each.dim != marks) continue;
    for (const AxisShard& shard : each.axes) work.flops /= program.mesh.size(shard.axis);
  }
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Shape& shape = program.buffer(instruction.inputs[i]).shape;
    const Dims& dims = compute.operand_dims[i];
    if (dims.front() != marks || shape.size() != 3) continue;
    ProductShape product{.batch = shape[0], .columns = shape[1], .depth = shape[2]};
    const double row = 2.0 * static_cast<double>(product.batch * product.columns * product.depth);
    product.rows = std::max<std::int64_t>(1, std::llround(work.flops / row));
    work.product = product;
    return;
  }
}

/// Queries are the first operand, keys the second: [batch positions heads… head size].
AttentionShape attention_shape(const LocalNode& local, const PositionMixing& mixing) {
  const Value queries = local.get().operands.at(0);
  const Dims& dims = local.graph.type(queries).dims;
  AttentionShape shape;
  shape.queries = has(dims, mixing.queries) ? local.graph.sizes.at(mixing.queries) : 1;
  shape.head_size = local.graph.sizes.at(dims.back());
  shape.heads = element_count(local.graph.shape(queries)) / std::max<std::int64_t>(shape.queries * shape.head_size, 1);
  shape.keys = local.graph.shape(local.get().operands.at(1)).at(1);
  shape.is_backward = mixing.merge == PositionMixing::Merge::sum;
  const Attributes& attributes = local.get().attributes;
  shape.drops = attributes.has("dropout") && attributes.number("dropout") > 0;
  return shape;
}

void add_results_read(KernelWork& work, const OpDefinition& op, const Program& program, const Instruction& instruction,
                      const Compute& compute) {
  const auto flat = op.flat_signature(compute.attributes);
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    const bool is_state = flat && (flat->is_update || i >= static_cast<std::size_t>(flat->outputs));
    if (!compute.accumulate && !is_state && !op.reads_result(static_cast<int>(i))) continue;
    work.bytes += static_cast<double>(program.buffer(instruction.outputs[i]).bytes());
  }
}

void describe_buffers(KernelWork& work, const Program& program, const Instruction& instruction) {
  const auto& first = instruction.inputs.empty() ? instruction.outputs : instruction.inputs;
  if (!first.empty()) work.dtype = program.buffer(first.front()).dtype;
  if (!instruction.outputs.empty()) {
    work.result_size = static_cast<double>(size_of(program.buffer(instruction.outputs.front()).dtype));
  }
}

/// The arithmetic of an activation depends on its kind. A product hides it.
std::string name_of(const Compute& compute, const OpDefinition& op) {
  const auto found = compute.attributes.values().find("kind");
  if (found == compute.attributes.values().end() || op.is_product()) return compute.op;
  const auto* kind = std::get_if<std::string>(&found->second);
  return kind == nullptr ? compute.op : compute.op + " " + *kind;
}

/// Copies and inputs read and write each byte of what they move.
KernelWork copied(const Program& program, const Instruction& instruction) {
  KernelWork work{.name = "copy"};
  for (const BufferId id : instruction.outputs) work.bytes += 2 * static_cast<double>(program.buffer(id).bytes());
  return work;
}

}  // namespace

std::vector<std::int64_t> KernelWork::shape() const {
  if (product) return {product->batch, product->rows, product->columns, product->depth};
  if (attention) return {attention->heads, attention->queries, attention->keys, attention->head_size};
  return {std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes))};
}

KernelWork kernel_work(const OpRegistry& registry, const Program& program, const Instruction& instruction) {
  const auto* compute = instruction.as<Compute>();
  if (compute == nullptr) return copied(program, instruction);
  const OpDefinition& op = registry.get(compute->op);
  const LocalNode local = local_node(program, instruction, *compute);
  const Cost cost = op.cost(local.graph, local.get());
  KernelWork work{
      .name = name_of(*compute, op), .flops = cost.flops, .bytes = cost.bytes, .accumulates = compute->accumulate};
  describe_buffers(work, program, instruction);
  add_results_read(work, op, program, instruction, *compute);
  if (const auto routed = op.routed_rows()) {
    describe_routed(work, program, instruction, *compute, *routed);
  } else if (op.is_product()) {
    work.product = product_shape(local);
  } else if (const auto mixing = op.mixing(local.graph, local.get())) {
    work.attention = attention_shape(local, *mixing);
  } else if (sums_products(op, *compute)) {
    work.product = equal_product(local, work.flops);
  }
  return work;
}

}  // namespace strata::host
