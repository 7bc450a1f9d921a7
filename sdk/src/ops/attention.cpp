#include <algorithm>

#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

/// Renames "seq" of k and v to "kv_seq", an iteration dimension of its own, which every rank needs whole.
Dims with_kv_seq(Dims dims) {
  std::replace(dims.begin(), dims.end(), Dim("seq"), Dim("kv_seq"));
  return dims;
}

/// The head dims of queries or keys: all dims between "seq" and the last.
Dims head_dims(const Dims& dims) { return {dims.begin() + 2, dims.end() - 1}; }

class AttentionOp : public NamedOp {
 public:
  using NamedOp::NamedOp;

 protected:
  static void require_queries_and_keys(const std::vector<TensorType>& types, const Node& node) {
    const Dims& q = types[0].dims;
    require_float(types[0], node);
    require(q.size() >= 4 && q[0] == "batch" && q[1] == "seq" && q.back() == "head_dim", node,
            "queries are [batch seq heads… head_dim], found " + to_string(types[0]));
    const Dims& k = types[1].dims;
    require(
        k.size() >= 4 && k[0] == "batch" && k[1] == "seq" && k.back() == "head_dim" && types[1].dtype == types[0].dtype,
        node, "keys are [batch seq heads… head_dim], found " + to_string(types[1]));
    const Dims query_heads = head_dims(q);
    const Dims key_heads = head_dims(k);
    require(
        key_heads.size() <= query_heads.size() && std::equal(key_heads.begin(), key_heads.end(), query_heads.begin()),
        node,
        "the keys' heads [" + join(key_heads) + "] must be the first of the queries' [" + join(query_heads) + "]");
    require_same(types[2], types[1], node);
    const double p = node.attributes.number("dropout");
    require(p >= 0 && p < 1, node, "dropout must be at least 0 and below 1");
    static_cast<void>(node.attributes.flag("causal"));
  }

  /// Type of the log-sum-exp, which is f32 for operands of shorter types.
  static TensorType log_sum_exponential_type(const TensorType& q) {
    Dims dims{"batch"};
    const Dims heads = head_dims(q.dims);
    dims.insert(dims.end(), heads.begin(), heads.end());
    dims.emplace_back("seq");
    return {dims, statistic_type(q.dtype)};
  }

  /// `type` with the element type in the attribute `dtype`. Results for pieces of the keys, which are merged or
  /// accumulated later, need f32 even if the operands are shorter.
  static TensorType result_of(const Node& node, const TensorType& type) {
    return {type.dims, result_type(node, type.dtype)};
  }

  /// Floating-point operations of `products` matrix products over queries and keys, halved under a causal mask. The
  /// forward pass has two: scores, and values.
  static double flops(const Graph& graph, const Node& node, double products) {
    double elements = 2 * products;
    for (const std::int64_t size : graph.shape(node.operands[0])) elements *= static_cast<double>(size);
    elements *= static_cast<double>(graph.sizes.at("seq"));
    return node.attributes.flag("causal") ? elements / 2 : elements;
  }
};

class Attention final : public AttentionOp {
 public:
  Attention()
      : AttentionOp("attention",
                    "q [batch seq heads… head_dim], k, v -> o as q, log_sum_exponential [batch heads… seq]: "
                    "softmax(q·k / sqrt(head_dim)) v with attributes causal and dropout (of the probabilities), and "
                    "dtype (of o, where it is not that of q). Fewer heads of k and v: grouped queries. k and v may be "
                    "a piece of the sequence: a query that sees none of it has o = 0 and log_sum_exponential = -inf. "
                    "The scores are never stored: Dao et al., \"FlashAttention\", 2022.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 3);
    require_queries_and_keys(types, node);
    return {result_of(node, types[0]), log_sum_exponential_type(types[0])};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    for (const std::size_t index : {1U, 2U}) space.operands[index] = with_kv_seq(space.operands[index]);
    space.whole = {"kv_seq", "head_dim"};
    return space;
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto cotangent = context.cotangent(0);
      require_no_cotangent(context, 1);
      const auto gradients = context.emit(0, "attention_gradient",
                                          {context.operand(0), context.operand(1), context.operand(2),
                                           context.result(0), context.result(1), *cotangent},
                                          context.node().attributes);
      for (const int index : {0, 1, 2}) context.contribute(index, gradients[static_cast<std::size_t>(index)]);
    };
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::low; }

  Cost cost(const Graph& graph, const Node& node) const override {
    Cost cost = OpDefinition::cost(graph, node);
    cost.flops = flops(graph, node, 2);
    return cost;
  }
};

class AttentionGradient final : public AttentionOp {
 public:
  AttentionGradient()
      : AttentionOp("attention_gradient",
                    "q, k, v, o, log_sum_exponential, do -> dq, dk, dv (attribute dtype, where it is not that of q): "
                    "recomputes the probabilities. k and v may be a piece of the sequence; o and log_sum_exponential "
                    "are of all of it.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 6);
    require_queries_and_keys(types, node);
    require_same(types[3], types[0], node);
    require_same(types[4], log_sum_exponential_type(types[0]), node);
    require_same(types[5], types[0], node);
    return {result_of(node, types[0]), result_of(node, types[1]), result_of(node, types[2])};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    for (const std::size_t index : {1U, 2U}) {
      space.operands[index] = with_kv_seq(space.operands[index]);
      space.results[index] = with_kv_seq(space.results[index]);
    }
    space.whole = {"kv_seq", "head_dim"};
    return space;
  }

  Cost cost(const Graph& graph, const Node& node) const override {
    Cost cost = OpDefinition::cost(graph, node);
    cost.flops = flops(graph, node, 5);  // recomputed scores, dP, dV, dQ, dK
    return cost;
  }
};

/// Merges the outputs of attention over two pieces of the keys.
class AttentionMerge final : public AttentionOp {
 public:
  AttentionMerge()
      : AttentionOp("attention_merge",
                    "o1 [batch seq heads… head_dim], l1 [batch heads… seq], o2, l2 -> o, l: attention to two disjoint "
                    "sets of keys as attention to both, o = Σ exp(li - l) oi with l = log Σ exp(li). A query that "
                    "sees none of either set has o = 0 and l = -inf.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 4);
    require_float(types[0], node);
    const Dims& o = types[0].dims;
    require(o.size() >= 4 && o[0] == "batch" && o[1] == "seq" && o.back() == "head_dim", node,
            "outputs are [batch seq heads… head_dim], found " + to_string(types[0]));
    require_same(types[1], log_sum_exponential_type(types[0]), node);
    require_same(types[2], types[0], node);
    require_same(types[3], types[1], node);
    return {types[0], types[1]};
  }

  std::vector<int> in_place_operands(int result) const override { return {result}; }
};

}  // namespace

void register_attention(Registration& registration) {
  registration.add(std::make_unique<Attention>());
  registration.add(std::make_unique<AttentionGradient>());
  registration.add(std::make_unique<AttentionMerge>());
}

}  // namespace strata::ops
