#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

Types infer_embedding(const Types& types, const Node& node) {
  require_float(types[0], node);
  require(types[0].dims.size() == 2, node, "the table has two dims, found " + to_string(types[0]));
  require(types[1].dtype == DType::i32, node, "ids are i32, found " + to_string(types[1]));
  Dims dims = types[1].dims;
  dims.push_back(types[0].dims[1]);
  return {{dims, types[0].dtype}};
}

void embedding_rule(GradientContext& context) {
  const auto dy = context.cotangent(0);
  const std::string dims = join(context.graph().type(context.operand(0)).dims);
  const Attributes attributes = gradient_attributes(context, 0, {{"result", dims}});
  context.contribute(0, context.emit(0, "embedding_gradient", {*dy, context.operand(1)}, attributes)[0]);
}

Types infer_embedding_gradient(const Types& types, const Node& node) {
  const Dims result = split_dims(node.attributes.word("result"));
  require(result.size() == 2 && !types[0].dims.empty() && types[0].dims.back() == result[1], node,
          "result [" + join(result) + "] does not fit " + to_string(types[0]));
  require_dims(types[1], without_last(types[0].dims), node);
  return {{result, result_type(node, types[0].dtype)}};
}

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

class Embedding final : public DescribedOp {
 public:
  using DescribedOp::DescribedOp;

  /// Reads the rows of the ids only.
  Cost cost(const Graph& graph, const Node& node) const override {
    const auto bytes = [&](Value value) {
      return static_cast<double>(element_count(graph.shape(value))) *
             static_cast<double>(size_of(graph.type(value).dtype));
    };
    return {0, bytes(node.operands[1]) + 2 * bytes({node.id, 0})};
  }
};

}  // namespace

void register_embedding(Registration& registration) {
  add_op<Embedding>(
      registration,
      {.name = "embedding",
       .documentation =
           "table [V E], ids […] i32 -> […  E]: the table's row of each id; an id outside of the shard's rows gives "
           "zeros, so a sharded table gives partial sums.",
       .operands = 2,
       .infer = infer_embedding,
       .precision = OperandPrecision::any,
       .gradient = embedding_rule});
  add_op(registration,
         {.name = "embedding_gradient",
          .documentation =
              "dy […  E], ids […] i32 -> [V E] (attribute result; dtype, where it is not that of dy): adds each row of "
              "dy to the row of its id, in a fixed order.",
          .operands = 2,
          .infer = infer_embedding_gradient,
          .partial_operands = {0}});
  registration.add(reference::kernel({"embedding", "ri", "r", prepare_embedding}));
  registration.add(reference::kernel({"embedding_gradient", "ri", "r", prepare_embedding_gradient}));
}

}  // namespace strata::ops
