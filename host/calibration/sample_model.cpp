#include "calibration/sample_model.hpp"

#include <string>

namespace strata::host {
namespace {

/// A feed-forward layer is so many times as wide as the model.
constexpr std::int64_t kWidening = 4;
/// Query heads that share a key head in the second layer.
constexpr std::int64_t kSharedHeads = 2;
constexpr double kEpsilon = 1e-5;
constexpr double kDropped = 0.1;
constexpr double kDeviation = 0.02;

const Dims kHidden{"batch", "seq", "embed"};

/// Builds one layer.
class LayerBuilder {
 public:
  LayerBuilder(GraphBuilder& builder, std::string prefix) : b_(builder), prefix_(std::move(prefix)) {}

  /// Layer norm, biases, dropout, an activation.
  Value plain(Value x) {
    const Value normed = b_.layer_norm(x, gain("norm_1"), bias("norm_1", {"embed"}), kEpsilon, name("norm_1"));
    const Value q = affine(normed, "q", {"embed", "heads", "head_dim"}, {"batch", "seq", "heads", "head_dim"});
    const Value k = affine(normed, "k", {"embed", "heads", "head_dim"}, {"batch", "seq", "heads", "head_dim"});
    const Value v = affine(normed, "v", {"embed", "heads", "head_dim"}, {"batch", "seq", "heads", "head_dim"});
    const Value mixed = b_.attention(q, k, v, {.causal = true}, name("attention"));
    const Value output = affine(mixed, "o", {"heads", "head_dim", "embed"}, kHidden);
    x = b_.add(x, b_.dropout(output, kDropped, name("dropout")), name("residual_1"));
    const Value again = b_.layer_norm(x, gain("norm_2"), bias("norm_2", {"embed"}), kEpsilon, name("norm_2"));
    const Value wide = affine(again, "up", {"embed", "ffn"}, {"batch", "seq", "ffn"});
    const Value active = b_.activation(wide, "gelu_tanh", name("gelu"));
    return b_.add(x, affine(active, "down", {"ffn", "embed"}, kHidden), name("residual_2"));
  }

  /// Root-mean-square norm, rotary positions, shared key heads, a gate.
  Value gated(Value x, Value positions) {
    const Value normed = rms_norm(x, "norm_1");
    const Dims queries{"kv_heads", "group", "head_dim"};
    const Dims keys{"kv_heads", "head_dim"};
    const Value q =
        rotated(product(normed, "q", with({"embed"}, queries), with({"batch", "seq"}, queries)), positions, "q.rope");
    const Value k =
        rotated(product(normed, "k", with({"embed"}, keys), with({"batch", "seq"}, keys)), positions, "k.rope");
    const Value v = product(normed, "v", with({"embed"}, keys), with({"batch", "seq"}, keys));
    const Value mixed = b_.attention(q, k, v, {.causal = true}, name("attention"));
    x = b_.add(x, product(mixed, "o", with(queries, {"embed"}), kHidden), name("residual_1"));
    const Value again = rms_norm(x, "norm_2");
    const Value gate = product(again, "gate", {"embed", "ffn"}, {"batch", "seq", "ffn"});
    const Value up = product(again, "up", {"embed", "ffn"}, {"batch", "seq", "ffn"});
    const Value active = b_.op("gated_activation", {gate, up}, name("silu"), {{"kind", std::string("silu")}})[0];
    return b_.add(x, product(active, "down", {"ffn", "embed"}, kHidden), name("residual_2"));
  }

 private:
  static Dims with(Dims first, const Dims& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  [[nodiscard]] std::string name(const std::string& part) const { return prefix_ + part; }
  Value gain(const std::string& norm) {
    return b_.parameter(name(norm + ".weight"), {"embed"}, Initialization::constant(1), false);
  }
  Value bias(const std::string& part, const Dims& dims) {
    return b_.parameter(name(part + ".bias"), dims, Initialization::constant(0), false);
  }
  Value product(Value x, const std::string& part, const Dims& weight, const Dims& result) {
    const Value factor = b_.parameter(name(part + ".weight"), weight, Initialization::normal(kDeviation), true);
    return b_.linear(x, factor, result, name(part));
  }
  Value affine(Value x, const std::string& part, const Dims& weight, const Dims& result) {
    const Value y = product(x, part, weight, result);
    Dims dims;
    for (const Dim& dim : result) {
      if (contains(weight, dim)) dims.push_back(dim);
    }
    return b_.add(y, bias(part, dims), name(part + ".add_bias"));
  }
  Value rms_norm(Value x, const std::string& part) {
    return b_.op("rms_norm", {x, gain(part)}, name(part), {{"epsilon", kEpsilon}})[0];
  }
  Value rotated(Value x, Value positions, const std::string& part) {
    const auto table = [&](const std::string& which) {
      return b_.constant("rope." + which, {"pos", "head_pair"}, Initialization::constant(1));
    };
    return b_.op("rope", {x, table("cos"), table("sin"), positions}, name(part), {{"inverse", false}})[0];
  }

  GraphBuilder& b_;
  std::string prefix_;
};

}  // namespace

double SampleSizes::step_flops() const {
  const double tokens = static_cast<double>(batch * context);
  const double width = static_cast<double>(this->width());
  const double parameters =
      width * width * (4 + 2 * kWidening + 3 + 3 * kWidening) + width * static_cast<double>(vocab);
  return 6 * tokens * parameters;
}

const std::vector<SampleSizes>& sample_sizes() {
  static const std::vector<SampleSizes> sizes = {
      {2, 32, 4, 16, 256},      {4, 64, 4, 32, 512},       {1, 128, 8, 32, 512},      {8, 128, 4, 32, 256},
      {4, 128, 8, 32, 2048},    {2, 128, 12, 64, 1024},    {8, 128, 6, 64, 4096},     {4, 512, 12, 64, 8192},
      {4, 1024, 16, 64, 16384}, {4, 2048, 16, 128, 32768}, {32, 1024, 12, 64, 50304}, {4, 4096, 32, 128, 50304},
  };
  return sizes;
}

DimSizes SampleModel::sizes() const { return {{"seq", sizes_.context}, {"vocab", sizes_.vocab}}; }

void SampleModel::build(GraphBuilder& b) const {
  b.define_dim("pos", sizes_.context);
  b.define_dim("embed", sizes_.width());
  b.define_dim("heads", sizes_.heads);
  b.define_dim("kv_heads", sizes_.heads / kSharedHeads);
  b.define_dim("group", kSharedHeads);
  b.define_dim("head_dim", sizes_.head_size);
  b.define_dim("head_pair", sizes_.head_size / 2);
  b.define_dim("ffn", kWidening * sizes_.width());
  b.begin_block(0);
  const Value tokens = b.input("tokens", {"batch", "seq"});
  const Value positions = b.input("positions", {"seq"});
  const auto table = [&](const std::string& name, const Dim& dim) {
    return b.parameter(name, {dim, "embed"}, Initialization::normal(kDeviation), true);
  };
  const Value words = table("words.weight", "vocab");
  Value x = b.add(b.embedding(words, tokens, "words"), b.embedding(table("places.weight", "pos"), positions, "places"),
                  "embedding");
  b.begin_block(1);
  x = LayerBuilder(b, "plain.").plain(x);
  b.begin_block(2);
  x = LayerBuilder(b, "gated.").gated(x, positions);
  b.begin_block(3);
  const Value logits = b.linear(x, words, {"batch", "seq", "vocab"}, "logits");
  b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
}

}  // namespace strata::host
