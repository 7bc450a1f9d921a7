#include "ops/op_base.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

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

  /// Reads the rows of the ids only.
  Cost cost(const Graph& graph, const Node& node) const override {
    const auto bytes = [&](Value value) {
      return static_cast<double>(element_count(graph.shape(value))) *
             static_cast<double>(size_of(graph.type(value).dtype));
    };
    return {0, bytes(node.operands[1]) + 2 * bytes({node.id, 0})};
  }
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

using reference::columns;
using reference::elements;
using reference::index_map;
using reference::Launch;
using reference::Reader;
using reference::Work;
using reference::Writer;

/// The local row that holds global row `id`, or -1 if this rank does not hold it.
std::int64_t local_row(const IndexMap& map, std::int64_t id) {
  for (const IndexSegment& segment : map.segments) {
    const std::int64_t offset = id - segment.global_begin;
    if (offset >= 0 && offset < segment.length) return segment.local_begin + offset;
  }
  return -1;
}

Work prepare_embedding(const OpInstance& op) {
  const IndexMap map = index_map(op, op.operands[0].dims[0]);
  return [map](const Launch& launch) {
    const Reader table = launch.operand(0);
    const Reader ids = launch.operand(1);
    const Writer y = launch.result(0);
    const std::int64_t width = columns(launch.op().results[0]);
    const std::int64_t count = elements(launch.op().operands[1]);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = local_row(map, static_cast<std::int64_t>(ids[i]));
      for (std::int64_t j = 0; j < width; ++j) y.set(i * width + j, row < 0 ? 0.0 : table[row * width + j]);
    }
  };
}

Work prepare_embedding_gradient(const OpInstance& op) {
  const IndexMap map = index_map(op, op.results[0].dims[0]);
  return [map](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader ids = launch.operand(1);
    const Writer dtable = launch.result(0);
    const std::int64_t width = columns(launch.op().results[0]);
    const std::int64_t count = elements(launch.op().operands[1]);
    if (!launch.op().accumulate) {
      for (std::int64_t i = 0; i < elements(launch.op().results[0]); ++i) dtable.overwrite(i, 0.0);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = local_row(map, static_cast<std::int64_t>(ids[i]));
      if (row < 0) continue;
      for (std::int64_t j = 0; j < width; ++j) {
        dtable.overwrite(row * width + j, dtable.get(row * width + j) + dy[i * width + j]);
      }
    }
  };
}

}  // namespace

void register_embedding(Registration& registration) {
  registration.add(std::make_unique<Embedding>());
  registration.add(std::make_unique<EmbeddingGradient>());
  registration.add(reference::kernel({"embedding", "ri", "r", prepare_embedding}));
  registration.add(reference::kernel({"embedding_gradient", "ri", "r", prepare_embedding_gradient}));
}

}  // namespace strata::ops
