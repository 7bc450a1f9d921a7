#include "strata/internal/quantization.hpp"

#include <algorithm>

#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

/// Names of the dimensions that replace the quantised dimension in integers and scales.
const Dim kBytes = "byte";
const Dim kBlocks = "block";

Dims with_last(Dims dims, const Dim& last) {
  dims.back() = last;
  return dims;
}

/// Requires whole runs on every rank, because blocks must not depend on the layout.
IterationSpace whole_runs(IterationSpace space, const Dim& run) {
  space.whole = {run, kBytes, kBlocks};
  return space;
}

class QuantizeBlocks final : public NamedOp {
 public:
  QuantizeBlocks()
      : NamedOp("quantize_blocks",
                "x -> (integers, scales): the last dim in blocks (attributes bits, 8 or 4, and block, the numbers that "
                "share a scale); it becomes the dims byte and block.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 1);
    require_float(types[0], node);
    require(!types[0].dims.empty(), node, "a scalar has no dim to quantise along");
    static_cast<void>(BlockQuantization::from(node.attributes));
    return {{with_last(types[0].dims, kBytes), DType::i8},
            {with_last(types[0].dims, kBlocks), statistic_type(types[0].dtype)}};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    return whole_runs(OpDefinition::iteration(graph, node), graph.type(node.operands.at(0)).dims.back());
  }
};

class DequantizeBlocks final : public NamedOp {
 public:
  DequantizeBlocks()
      : NamedOp(
            "dequantize_blocks",
            "integers, scales -> x (attributes bits and block; result: its dims; dtype, where it is not that of the "
            "scales): the inverse of quantize_blocks, added up over the leading dims that the result lacks.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require(types[0].dtype == DType::i8, node, "integers are i8, found " + to_string(types[0]));
    require_float(types[1], node);
    require(!types[0].dims.empty() && types[0].dims.back() == kBytes, node,
            "expected integers along " + kBytes + ", found " + to_string(types[0]));
    require_dims(types[1], with_last(types[0].dims, kBlocks), node);
    static_cast<void>(BlockQuantization::from(node.attributes));
    const Dims result = split_dims(node.attributes.word("result"));
    const Dims runs = without_last(types[0].dims);
    const bool is_rest = !result.empty() && result.size() <= types[0].dims.size() &&
                         std::equal(result.rbegin() + 1, result.rend(), runs.rbegin());
    require(is_rest, node, "[" + join(result) + "] has other runs than " + to_string(types[0]));
    return {{result, result_type(node, types[1].dtype)}};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    return whole_runs(OpDefinition::iteration(graph, node), node.results.at(0).dims.back());
  }
};

}  // namespace

void register_quantization(Registration& registration) {
  registration.add(std::make_unique<QuantizeBlocks>());
  registration.add(std::make_unique<DequantizeBlocks>());
}

}  // namespace strata::ops
