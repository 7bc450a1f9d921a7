#include "random_model.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "random_choice.hpp"

namespace strata::testing {
namespace {

/// The random choices.
struct Shape {
  int layers;
  bool tied;
  bool skip;
  bool shared;
  bool second_loss;
  bool grouped;
  bool biased;
  std::string activation;
  double dropout;
  double attention_dropout;
  ParameterRole positions;
  bool frozen_down;
  bool adapted;
};

Shape choose(std::uint64_t seed) {
  RandomChoice choice(seed);
  return {1 + choice.below(3),
          choice.flip(),
          choice.flip(),
          choice.flip(),
          choice.flip(),
          choice.flip(),
          choice.flip(),
          choice.of<std::string>({"gelu_tanh", "silu"}),
          choice.flip() ? 0.1 : 0.0,
          choice.flip() ? 0.1 : 0.0,
          choice.of<ParameterRole>({ParameterRole::trained, ParameterRole::frozen, ParameterRole::constant}),
          choice.of<int>({0, 0, 1}) == 1,
          choice.of<int>({0, 0, 1}) == 1};
}

/// A table from a formula: sin(position / 3^dimension).
class Waves final : public Initializer {
 public:
  [[nodiscard]] double value(std::span<const std::int64_t> index, const strata::Shape& /*shape*/,
                             std::uint64_t /*key*/) const override {
    return 0.3 * std::sin(static_cast<double>(index[0]) / std::pow(3.0, static_cast<double>(index[1])));
  }
};

class RandomModel final : public Model {
 public:
  explicit RandomModel(Shape shape) : shape_(std::move(shape)) {}

  [[nodiscard]] DimSizes sizes() const override { return {{"seq", 16}, {"vocab", 24}}; }

  void build(GraphBuilder& b) const override {
    for (const auto& [dim, size] : std::vector<std::pair<Dim, std::int64_t>>{{"seq", 16},
                                                                             {"pos", 16},
                                                                             {"embed", 8},
                                                                             {"heads", 4},
                                                                             {"kv_heads", 2},
                                                                             {"group", 2},
                                                                             {"head_dim", 4},
                                                                             {"ffn", 16}}) {
      b.define_dim(dim, size);
    }
    const Value table = token_table(b);
    const Value positions = position_table(b);
    const Value tokens = b.input("tokens", {"batch", "seq"});
    const Value position = b.embedding(positions, b.input("positions", {"seq"}), "position");
    Value x =
        b.dropout(b.add(b.embedding(table, tokens, "token"), position, "stream"), shape_.dropout, "stream.dropout");
    std::vector<Value> outputs{x};
    for (int layer = 0; layer < shape_.layers; ++layer) {
      b.begin_block(layer + 1);
      x = block(b, x, layer);
      if (shape_.skip && layer + 1 == shape_.layers) x = b.add(x, outputs.front(), "skip");
      outputs.push_back(x);
      if (shape_.second_loss && layer == 0) loss(b, x, table, "second", false);
    }
    b.begin_block(shape_.layers + 1);
    loss(b, norm(b, x, "final"), shape_.tied ? table : matrix(b, "head", {"vocab", "embed"}), "loss", true);
  }

 private:
  static Value matrix(GraphBuilder& b, const std::string& name, const Dims& dims) {
    return b.parameter(name, dims, Initialization::normal(0.3), true);
  }

  /// A matrix, or the sum of a frozen matrix and a trained difference, whose gradient comes from all readers of the
  /// sum.
  [[nodiscard]] Value token_table(GraphBuilder& b) const {
    const Dims dims{"vocab", "embed"};
    if (!shape_.adapted) return matrix(b, "wte", dims);
    const Value base = b.frozen_parameter("wte.base", dims, Initialization::normal(0.3));
    return b.add(base, matrix(b, "wte.difference", dims), "wte.sum");
  }

  [[nodiscard]] Value position_table(GraphBuilder& b) const {
    const Dims dims{"pos", "embed"};
    if (shape_.positions == ParameterRole::trained) return matrix(b, "wpe", dims);
    if (shape_.positions == ParameterRole::frozen) {
      return b.frozen_parameter("wpe", dims, Initialization::normal(0.3));
    }
    return b.constant("wpe", dims, Initialization::custom(std::make_shared<Waves>()));
  }

  static void loss(GraphBuilder& b, Value x, Value table, const std::string& name, bool main) {
    const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, name + ".logits");
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), name, main);
  }

  static Value norm(GraphBuilder& b, Value x, const std::string& name) {
    const Value gain = b.parameter(name + ".gain", {"embed"}, Initialization::constant(1), false);
    const Value bias = b.parameter(name + ".bias", {"embed"}, Initialization::normal(0.1), false);
    return b.layer_norm(x, gain, bias, 1e-5, name);
  }

  Value project(GraphBuilder& b, Value x, const Dims& weight, const Dims& bias, const Dims& result,
                const std::string& name, const std::string& owner, bool zero_gradient = false) const {
    const Value product = b.linear(x, matrix(b, owner + ".weight", weight), result, name);
    if (!shape_.biased) return product;
    return b.add(product, b.parameter(owner + ".bias", bias, Initialization::normal(0.1), false, zero_gradient),
                 name + ".add_bias");
  }

  Value attention(GraphBuilder& b, Value x, const std::string& prefix) const {
    const Dims key_heads = shape_.grouped ? Dims{"kv_heads"} : Dims{"heads"};
    const Dims query_heads = shape_.grouped ? Dims{"kv_heads", "group"} : Dims{"heads"};
    const auto heads = [&](const Dims& names, const std::string& name, bool zero_gradient) {
      Dims bias = names;
      bias.emplace_back("head_dim");
      Dims weight{"embed"};
      weight.insert(weight.end(), bias.begin(), bias.end());
      Dims result{"batch", "seq"};
      result.insert(result.end(), bias.begin(), bias.end());
      return project(b, x, weight, bias, result, prefix + name, prefix + name, zero_gradient);
    };
    const Value q = heads(query_heads, "q", false);
    const Value k = heads(key_heads, "k", true);
    const Value v = heads(key_heads, "v", false);
    const Value o = b.attention(q, k, v, {.causal = true, .dropout = shape_.attention_dropout}, prefix + "attention");
    Dims weight = query_heads;
    weight.insert(weight.end(), {"head_dim", "embed"});
    return project(b, o, weight, {"embed"}, {"batch", "seq", "embed"}, prefix + "o", prefix + "o");
  }

  Value project_down(GraphBuilder& b, Value active, const std::string& name, const std::string& owner) const {
    const Dims weight{"ffn", "embed"};
    const Dims result{"batch", "seq", "embed"};
    if (!shape_.frozen_down) return project(b, active, weight, {"embed"}, result, name, owner);
    return b.linear(active, b.frozen_parameter(owner + ".weight", weight, Initialization::normal(0.3)), result, name);
  }

  Value block(GraphBuilder& b, Value x, int layer) const {
    const std::string prefix = "h" + std::to_string(layer) + ".";
    const std::string owner = shape_.shared ? "shared." : prefix;
    x = b.add(x, b.dropout(attention(b, norm(b, x, prefix + "n1"), prefix), shape_.dropout, prefix + "d1"),
              prefix + "r1");
    const Value up = project(b, norm(b, x, prefix + "n2"), {"embed", "ffn"}, {"ffn"}, {"batch", "seq", "ffn"},
                             prefix + "up", owner + "up");
    const Value active = b.activation(up, shape_.activation, prefix + "activation");
    const Value down = project_down(b, active, prefix + "down", owner + "down");
    return b.add(x, b.dropout(down, shape_.dropout, prefix + "d2"), prefix + "r2");
  }

  Shape shape_;
};

}  // namespace

std::shared_ptr<const Model> random_model(std::uint64_t seed) { return std::make_shared<RandomModel>(choose(seed)); }

}  // namespace strata::testing
