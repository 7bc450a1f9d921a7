#include <algorithm>

#include "ops/op_base.hpp"
#include "strata/internal/weight_blocks.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"
#include "weight_blocks.hpp"

namespace strata::ops {
namespace {

Dims with_dim(Dims dims, std::size_t position, const Dim& dim) {
  dims[position] = dim;
  return dims;
}

class DequantizeWeight final : public NamedOp {
 public:
  DequantizeWeight()
      : NamedOp(
            kDequantizeWeight,
            "codes, scales -> weight (attributes code, int8 or nf4, and block; result: its dims; along: the one that "
            "is divided into blocks; dtype, where it is not that of the scales): the numbers of a weight that is "
            "stored in 8 or 4 bits. Codes and scales have other dims in the place of `along`.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require(types[0].dtype == DType::i8, node, "codes are i8, found " + to_string(types[0]));
    require_float(types[1], node);
    const WeightBlocks blocks = WeightBlocks::from(node.attributes);
    const Dims result = split_dims(node.attributes.word("result"));
    const std::size_t along = position(result, node);
    for (const TensorType& type : types) {
      require(type.dims.size() == result.size() && with_dim(type.dims, along, result[along]) == result, node,
              "expected the dims [" + join(result) + "] apart from " + result[along] + ", found " + to_string(type));
    }
    const auto size = [&](const Dim& dim) { return graph.sizes.at(dim); };
    const std::int64_t length = size(result[along]);
    require(size(types[0].dims[along]) == blocks.bytes(length), node,
            "codes have another size than " + std::to_string(blocks.bytes(length)) + " along " + types[0].dims[along]);
    require(
        size(types[1].dims[along]) == blocks.scales(length), node,
        "scales have another size than " + std::to_string(blocks.scales(length)) + " along " + types[1].dims[along]);
    return {{result, result_type(node, types[1].dtype)}};
  }

  /// Blocks must not depend on the layout, so every rank has them whole.
  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    const std::size_t along = position(node.results.at(0).dims, node);
    space.whole = {space.results.at(0).at(along), space.operands.at(0).at(along), space.operands.at(1).at(along)};
    return space;
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::unchanged; }

 private:
  static std::size_t position(const Dims& result, const Node& node) {
    const int along = find_dim(result, node.attributes.word("along"));
    require(along >= 0, node, "the result has no dimension '" + node.attributes.word("along") + "'");
    return static_cast<std::size_t>(along);
  }
};

using reference::Launch;
using reference::Reader;
using reference::Work;
using reference::Writer;

Work prepare_dequantize_weight(const OpInstance& op) {
  const BlockedWeight shape = BlockedWeight::from(op);
  return [=](const Launch& launch) {
    const Reader codes = launch.operand(0);
    const Reader scales = launch.operand(1);
    const Writer weight = launch.result(0);
    const WeightBlocks& blocks = shape.blocks;
    for (std::int64_t at = 0; at < shape.elements(); ++at) {
      const std::int64_t inner = at % shape.inner;
      const std::int64_t index = at / shape.inner % shape.length;
      const std::int64_t outer = at / shape.inner / shape.length;
      const CodePlace place = code_place(blocks, shape.length, index);
      const double code = codes[(outer * blocks.bytes(shape.length) + place.byte) * shape.inner + inner];
      const double scale = scales[(outer * blocks.scales(shape.length) + index / blocks.size) * shape.inner + inner];
      weight.set(at, scale * coded_number(blocks.code, static_cast<std::int8_t>(code), place.is_upper));
    }
  };
}

}  // namespace

void register_dequantize_weight(Registration& registration) {
  registration.add(std::make_unique<DequantizeWeight>());
  registration.add(reference::kernel(
      {kDequantizeWeight, "bf", "r", prepare_dequantize_weight, true, nullptr, BlockedWeight::mismatch}));
}

}  // namespace strata::ops
