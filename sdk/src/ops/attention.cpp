#include <algorithm>
#include <cmath>

#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

/// `dims`, which are those of queries or of what belongs to keys, with another name for the positions.
Dims with_positions(Dims dims, const Dim& name) {
  dims.at(1) = name;
  return dims;
}

/// The iteration dimension of the keys' positions ("kv_seq" of "seq"), a dimension of its own, which every rank needs
/// whole. `keys`: the dims of k.
Dim key_positions(const Dims& keys) { return "kv_" + keys.at(1); }

/// The head dims of queries or keys: all dims between the positions and the last.
Dims head_dims(const Dims& dims) { return {dims.begin() + 2, dims.end() - 1}; }

class AttentionOp : public NamedOp {
 public:
  using NamedOp::NamedOp;

 protected:
  static void require_queries_and_keys(const std::vector<TensorType>& types, const Node& node) {
    const Dims& q = types[0].dims;
    require_float(types[0], node);
    require(q.size() >= 4 && q[0] == "batch" && q.back() == "head_dim", node,
            "queries are [batch positions heads… head_dim], found " + to_string(types[0]));
    const Dims& k = types[1].dims;
    require(k.size() >= 4 && k[0] == "batch" && k.back() == "head_dim" && types[1].dtype == types[0].dtype, node,
            "keys are [batch positions heads… head_dim], found " + to_string(types[1]));
    const Dims query_heads = head_dims(q);
    const Dims key_heads = head_dims(k);
    require(
        key_heads.size() <= query_heads.size() && std::equal(key_heads.begin(), key_heads.end(), query_heads.begin()),
        node,
        "the keys' heads [" + join(key_heads) + "] must be the first of the queries' [" + join(query_heads) + "]");
    require_same(types[2], types[1], node);
  }

  static void require_mask(const std::vector<TensorType>& types, const Node& node) {
    require_scores(node);
    const double p = node.attributes.number("dropout");
    require(p >= 0 && p < 1, node, "dropout must be at least 0 and below 1");
    require_window(node);
    require(window_of(node) == 0 || node.attributes.flag("causal"), node, "a window needs the causal mask");
    require(!node.attributes.flag("causal") || types[0].dims[1] == types[1].dims[1], node,
            "a causal mask needs queries and keys along one dimension, found " + to_string(types[0]) + " and " +
                to_string(types[1]));
  }

  static void require_scores(const Node& node) {
    for (const char* name : {"scale", "cap"}) {
      if (!node.attributes.has(name)) continue;
      const double value = node.attributes.number(name);
      require(value > 0 && std::isfinite(value), node,
              std::string(name) + " must be above 0, found " + std::to_string(value));
    }
  }

  static void require_window(const Node& node) {
    const std::int64_t window = window_of(node);
    require(window >= 0, node, "window must be at least 0, found " + std::to_string(window));
  }

  /// The types of `count` operands, and of a bias and the documents of queries and keys that may follow them.
  static std::vector<TensorType> types_with_options(const Graph& graph, const Node& node, std::size_t count) {
    const std::size_t with_bias = count + (has_bias(node, count) ? 1 : 0);
    const bool documents = has_documents(node, count);
    const auto types = operand_types(graph, node, with_bias + (documents ? 2 : 0));
    for (const std::size_t i : {0U, 1U}) {
      require(types[i].dims.size() > 2, node, "takes queries and keys, found " + to_string(types[i]));
      if (documents) require_same(types[with_bias + i], {{"batch", types[i].dims[1]}, DType::i32}, node);
    }
    if (has_bias(node, count)) require_bias(graph, node, count);
    return types;
  }

  static void require_bias(const Graph& graph, const Node& node, std::size_t count) {
    require(!node.attributes.has("cap") || node.attributes.number("cap") == 0, node, "cannot have a bias and a cap");
    const TensorType& bias = graph.type(node.operands[count]);
    const TensorType& q = graph.type(node.operands[0]);
    const std::int64_t distances =
        graph.shape(node.operands[0])[1] + graph.shape(node.operands[1])[1] - 1;  // from first to last key and back
    require(bias.dtype == q.dtype && !bias.dims.empty() && without_last(bias.dims) == head_dims(q.dims) &&
                graph.shape(node.operands[count]).back() == distances,
            node,
            "a bias is [" + join(head_dims(q.dims)) + " distance] with queries + keys - 1 = " +
                std::to_string(distances) + " distances, found " + to_string(bias) + " with a last dimension of " +
                (bias.dims.empty() ? "none" : std::to_string(graph.shape(node.operands[count]).back())));
  }

  /// The iteration space of an op with `count` operands other than bias and documents.
  IterationSpace space_with_options(const Graph& graph, const Node& node, std::size_t count) const {
    IterationSpace space = OpDefinition::iteration(graph, node);
    const Dim keys = key_positions(space.operands[1]);
    for (const std::size_t index : {1U, 2U}) space.operands[index] = with_positions(space.operands[index], keys);
    if (has_documents(node, count)) space.operands.back() = with_positions(space.operands.back(), keys);
    space.whole = {keys, "head_dim"};
    if (has_bias(node, count)) space.whole.insert(space.operands[count].back());
    return space;
  }

  static PositionMixing mixing_by(PositionMixing::Merge merge, const Graph& graph, const Node& node) {
    const Dims& queries = graph.type(node.operands[0]).dims;
    return {.queries = queries[1],
            .keys = key_positions(graph.type(node.operands[1]).dims),
            .heads = head_dims(queries),
            .merge = merge,
            .window = window_of(node),
            .takes_result_type = true};
  }

  static bool has_bias(const Node& node, std::size_t count) {
    return node.operands.size() == count + 1 || node.operands.size() == count + 3;
  }
  static bool has_documents(const Node& node, std::size_t count) {
    return node.operands.size() == count + 2 || node.operands.size() == count + 3;
  }

  /// The tokens that a query sees under a causal mask, itself included. 0: all before it.
  static std::int64_t window_of(const Node& node) {
    return node.attributes.has("window") ? node.attributes.integer("window") : 0;
  }

  /// Type of the log-sum-exp, which is f32 for operands of shorter types.
  static TensorType log_sum_exponential_type(const TensorType& q) {
    Dims dims{q.dims[0]};
    const Dims heads = head_dims(q.dims);
    dims.insert(dims.end(), heads.begin(), heads.end());
    dims.push_back(q.dims[1]);
    return {dims, statistic_type(q.dtype)};
  }

  /// `type` with the element type in the attribute `dtype`. Results for pieces of the keys, which are merged or
  /// accumulated later, need f32 even if the operands are shorter.
  static TensorType result_of(const Node& node, const TensorType& type) {
    return {type.dims, result_type(node, type.dtype)};
  }

  /// Floating-point operations of `products` matrix products over queries and the keys that the causal mask and the
  /// window leave them. Documents are not known yet. The forward pass has two products: scores, and values.
  static double flops(const Graph& graph, const Node& node, double products) {
    double elements = 2 * products;
    for (const std::int64_t size : graph.shape(node.operands[0])) elements *= static_cast<double>(size);
    return elements * mean_visible_keys(static_cast<double>(graph.shape(node.operands[1])[1]), node);
  }

 private:
  static double mean_visible_keys(double keys, const Node& node) {
    const auto window = static_cast<double>(window_of(node));
    // The first queries see fewer keys than the window has.
    if (window > 0 && window < keys) return window * (1 - (window - 1) / (2 * keys));
    return node.attributes.flag("causal") ? keys / 2 : keys;
  }
};

class Attention final : public AttentionOp {
 public:
  Attention()
      : AttentionOp("attention",
                    "q [batch seq heads… head_dim], k, v -> o as q, log_sum_exponential [batch heads… seq]: "
                    "softmax(scale q·k) v, where seq is any dimension, and another one for k and v if the "
                    "mask is not causal; with attributes causal and dropout (of the probabilities), and "
                    "dtype (of o, where it is not that of q). Attribute scale: 1 / sqrt(head_dim) if it is not given. "
                    "Attribute cap: softmax(cap tanh(scale q·k / cap)). "
                    "Fewer heads of k and v: grouped queries. k and v may be "
                    "a piece of the sequence: a query that sees none of it has o = 0 and log_sum_exponential = -inf. "
                    "Attribute window, with causal: a query sees itself and the window - 1 tokens before it (0: all). "
                    "One more operand, bias [heads… distance]: is added to the scores, element d + queries - 1 to that "
                    "of a key d positions after its query. "
                    "Two more operands, documents of the queries and of the keys, i32 [batch seq]: a query sees the "
                    "keys with its own number only. "
                    "The scores are never stored: Dao et al., \"FlashAttention\", 2022.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = types_with_options(graph, node, kOperands);
    require_queries_and_keys(types, node);
    require_mask(types, node);
    return {result_of(node, types[0]), log_sum_exponential_type(types[0])};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    return space_with_options(graph, node, kOperands);
  }

  std::optional<PositionMixing> mixing(const Graph& graph, const Node& node) const override {
    return mixing_by(PositionMixing::Merge::log_sum_exp, graph, node);
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto cotangent = context.cotangent(0);
      require_no_cotangent(context, 1);
      std::vector<Value> operands{context.operand(0), context.operand(1), context.operand(2),
                                  context.result(0),  context.result(1),  *cotangent};
      const std::vector<Value>& given = context.node().operands;
      operands.insert(operands.end(), given.begin() + kOperands, given.end());
      const auto gradients = context.emit(0, "attention_gradient", std::move(operands), context.node().attributes);
      const int differentiable = has_bias(context.node(), kOperands) ? kOperands + 1 : kOperands;
      for (int index = 0; index < differentiable; ++index) {
        context.contribute(index, gradients[static_cast<std::size_t>(index)]);
      }
    };
  }

  ContinuationRule continuation() const override { return continue_attention; }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::low; }

  Cost cost(const Graph& graph, const Node& node) const override {
    Cost cost = OpDefinition::cost(graph, node);
    cost.flops = flops(graph, node, 2);
    return cost;
  }

 private:
  /// Every text is one document, so documents hide nothing.
  static void continue_attention(ContinuationContext& context) {
    const Node& node = context.node();
    if (!node.attributes.flag("causal")) {
      throw ConfigurationError("op attention '" + node.name +
                               "' is not causal, so every new token changes all results");
    }
    Attributes attributes{{"window", window_of(node)}};
    for (const char* name : {"scale", "cap"}) {
      if (node.attributes.has(name)) attributes.set(name, node.attributes.number(name));
    }
    std::vector<Value> operands(node.operands.begin(), node.operands.begin() + kOperands);
    operands.push_back(context.positions());
    if (has_bias(node, kOperands)) operands.push_back(node.operands[kOperands]);
    context.replace(0, context.emit("cached_attention", std::move(operands), attributes)[0]);
  }

  static constexpr int kOperands = 3;
};

/// Causal attention of new positions, which keeps the keys and values of earlier ones.
class CachedAttention final : public AttentionOp {
 public:
  CachedAttention()
      : AttentionOp("cached_attention",
                    "q [batch seq heads… head_dim], k, v, positions i32 [batch seq] -> o as q, k_cache and v_cache "
                    "[batch cache_seq kv_heads… head_dim]: writes k and v of every row to its position of the caches, "
                    "then attends to all positions of the caches up to that of the query, or with the attribute window "
                    "to so many of them (0: all). A row of position -1 is padding: o = 0, and the caches stay as they "
                    "are. Fewer heads of k and v: grouped queries. scale and cap: as for attention. One more operand, "
                    "bias [heads… distance]: is added to the scores, its middle element to that of the query's own "
                    "position, and the element d before it to that of a key d positions before.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, has_bias(node, kOperands) ? kOperands + 1 : kOperands);
    require_queries_and_keys(types, node);
    require_scores(node);
    require_window(node);
    require_same(types[3], {{"batch", types[0].dims[1]}, DType::i32}, node);
    if (has_bias(node, kOperands)) require_cached_bias(graph, node);
    const TensorType cache{with_positions(types[1].dims, kCacheDim), types[1].dtype};
    return {types[0], cache, cache};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.whole = {space.operands[0][1], kCacheDim, "head_dim"};
    if (has_bias(node, kOperands)) space.whole.insert(space.operands[kOperands].back());
    return space;
  }

  bool reads_result(int result) const override { return result > 0; }
  bool keeps_result(int result) const override { return result > 0; }
  OperandPrecision operand_precision(int operand) const override {
    return operand == kPositions ? OperandPrecision::unchanged : OperandPrecision::low;
  }

  Cost cost(const Graph& graph, const Node& node) const override {
    Cost cost = OpDefinition::cost(graph, node);
    cost.flops = 4;
    for (const std::int64_t size : graph.shape(node.operands[0])) cost.flops *= static_cast<double>(size);
    cost.flops *= static_cast<double>(graph.sizes.at(kCacheDim)) / 2;
    return cost;
  }

 private:
  static void require_cached_bias(const Graph& graph, const Node& node) {
    require(!node.attributes.has("cap") || node.attributes.number("cap") == 0, node, "cannot have a bias and a cap");
    const TensorType& q = graph.type(node.operands[0]);
    const TensorType& bias = graph.type(node.operands[kOperands]);
    const std::int64_t fewest = 2 * graph.sizes.at(kCacheDim) - 1;
    const std::int64_t distances = bias.dims.empty() ? 0 : graph.shape(node.operands[kOperands]).back();
    require(bias.dtype == q.dtype && !bias.dims.empty() && without_last(bias.dims) == head_dims(q.dims) &&
                distances % 2 == 1 && distances >= fewest,
            node,
            "a bias is [" + join(head_dims(q.dims)) + " distance] with an odd number of at least " +
                std::to_string(fewest) + " distances, found " + to_string(bias) + " with " + std::to_string(distances));
  }

  static constexpr int kPositions = 3;
  static constexpr int kOperands = 4;
};

class AttentionGradient final : public AttentionOp {
 public:
  AttentionGradient()
      : AttentionOp("attention_gradient",
                    "q, k, v, o, log_sum_exponential, do -> dq, dk, dv, and dbias if there is a bias (attribute dtype, "
                    "where it is not that of q): "
                    "recomputes the probabilities. k and v may be a piece of the sequence; o and log_sum_exponential "
                    "are of all of it. scale, cap, window, bias and documents: as for attention.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = types_with_options(graph, node, kOperands);
    require_queries_and_keys(types, node);
    require_mask(types, node);
    require_same(types[3], types[0], node);
    require_same(types[4], log_sum_exponential_type(types[0]), node);
    require_same(types[5], types[0], node);
    std::vector<TensorType> results;
    for (const std::size_t index : {0U, 1U, 2U}) results.push_back(result_of(node, types[index]));
    if (has_bias(node, kOperands)) results.push_back(result_of(node, types[kOperands]));
    return results;
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = space_with_options(graph, node, kOperands);
    for (const std::size_t index : {1U, 2U}) space.results[index] = space.operands[index];
    return space;
  }

  std::optional<PositionMixing> mixing(const Graph& graph, const Node& node) const override {
    return mixing_by(PositionMixing::Merge::sum, graph, node);
  }

  Cost cost(const Graph& graph, const Node& node) const override {
    Cost cost = OpDefinition::cost(graph, node);
    cost.flops = flops(graph, node, 5);  // recomputed scores, dP, dV, dQ, dK
    return cost;
  }

 private:
  static constexpr int kOperands = 6;
};

/// Merges the outputs of attention over two pieces of the keys.
class AttentionMerge final : public AttentionOp {
 public:
  AttentionMerge()
      : AttentionOp("attention_merge",
                    "o1 [batch seq heads… width], l1 [batch heads… seq], o2, l2 -> o, l, where the dimensions have any "
                    "names: attention to two disjoint "
                    "sets of keys as attention to both, o = Σ exp(li - l) oi with l = log Σ exp(li). A query that "
                    "sees none of either set has o = 0 and l = -inf.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 4);
    require_float(types[0], node);
    const Dims& o = types[0].dims;
    require(o.size() >= 3, node, "outputs are [batch seq heads… width], found " + to_string(types[0]));
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
  registration.add(std::make_unique<CachedAttention>());
}

}  // namespace strata::ops
