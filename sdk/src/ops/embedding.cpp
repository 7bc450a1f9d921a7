#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

class Embedding final : public NamedOp {
 public:
  Embedding()
      : NamedOp("embedding",
                "table [V E], ids […] i32 -> […  E]: the table's row of each id; an id outside of the shard's rows "
                "gives zeros, so a sharded table gives partial sums.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require_float(types[0], node);
    require(types[0].dims.size() == 2, node, "the table has two dims, found " + to_string(types[0]));
    require(types[1].dtype == DType::i32, node, "ids are i32, found " + to_string(types[1]));
    Dims dims = types[1].dims;
    dims.push_back(types[0].dims[1]);
    return {{dims, types[0].dtype}};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto dy = context.cotangent(0);
      const std::string dims = join(context.graph().type(context.operand(0)).dims);
      const Attributes attributes = gradient_attributes(context, 0, {{"result", dims}});
      context.contribute(0, context.emit(0, "embedding_gradient", {*dy, context.operand(1)}, attributes)[0]);
    };
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::any; }
};

class EmbeddingGradient final : public NamedOp {
 public:
  EmbeddingGradient()
      : NamedOp("embedding_gradient",
                "dy […  E], ids […] i32 -> [V E] (attribute result; dtype, where it is not that of dy): adds each row "
                "of dy to the row of its id, in a fixed order.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    const Dims result = split_dims(node.attributes.word("result"));
    require(result.size() == 2 && !types[0].dims.empty() && types[0].dims.back() == result[1], node,
            "result [" + join(result) + "] does not fit " + to_string(types[0]));
    require_dims(types[1], without_last(types[0].dims), node);
    return {{result, result_type(node, types[0].dtype)}};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.partial_operands = {0};
    return space;
  }
};

}  // namespace

void register_embedding(Registration& registration) {
  registration.add(std::make_unique<Embedding>());
  registration.add(std::make_unique<EmbeddingGradient>());
}

}  // namespace strata::ops
