#include "common/layers.hpp"

#include <cmath>
#include <memory>
#include <utility>

namespace strata::models {

double residual_deviation(std::int64_t layers) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(layers));
}

Value affine(GraphBuilder& b, Value x, const std::string& name, const Affine& shape) {
  const Value weight = b.parameter(name + ".weight", shape.weight, Initialization::normal(shape.deviation), true,
                                   shape.weight_gradient_is_zero);
  const Value product = b.linear(x, weight, shape.result, name);
  if (shape.bias.empty()) return product;
  const Value bias =
      b.parameter(name + ".bias", shape.bias, Initialization::constant(0), false, shape.bias_gradient_is_zero);
  return b.add(product, bias, name + ".add_bias");
}

namespace {

class Ones final : public Initializer {
 public:
  using Test = std::function<bool(std::span<const std::int64_t> index)>;
  explicit Ones(Test is_one) : is_one_(std::move(is_one)) {}
  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& /*shape*/,
                             std::uint64_t /*key*/) const override {
    return is_one_(index) ? 1 : 0;
  }

 private:
  Test is_one_;
};

}  // namespace

Value ones_where(GraphBuilder& b, const std::string& name, const Dims& dims, Ones::Test is_one) {
  return b.constant(name, dims, Initialization::custom(std::make_shared<Ones>(std::move(is_one))));
}

Value normalize(GraphBuilder& b, Value x, const Dims& dims, const std::string& name, const Norm& norm,
                bool gradient_is_zero) {
  Value gain =
      b.parameter(name + ".weight", dims, Initialization::constant(norm.plus_one ? 0 : 1), false, gradient_is_zero);
  if (norm.plus_one) {
    gain = b.add(gain, b.constant("one." + join(dims, "."), dims, Initialization::constant(1)), name + ".plus_one");
  }
  if (norm.kind == Norm::Kind::root_mean_square) {
    return b.op("rms_norm", {x, gain}, name, {{"epsilon", norm.epsilon}})[0];
  }
  const Value bias = b.parameter(name + ".bias", dims, Initialization::constant(0), false, gradient_is_zero);
  return b.layer_norm(x, gain, bias, norm.epsilon, name);
}

Value feed_forward(GraphBuilder& b, Value x, const std::string& prefix, const FeedForward& settings) {
  const Dim& inner = settings.inner;
  const auto widen = [&](const std::string& name) {
    return affine(
        b, x, prefix + name,
        {.weight = {"embed", inner}, .bias = settings.bias ? Dims{inner} : Dims{}, .result = {"batch", "seq", inner}});
  };
  const std::string active_name = prefix + settings.names.activation;
  Value active;
  if (settings.names.gate.empty()) {
    active = b.activation(widen(settings.names.up), settings.activation, active_name);
  } else {
    const Value gate = widen(settings.names.gate);
    active =
        b.op("gated_activation", {gate, widen(settings.names.up)}, active_name, {{"kind", settings.activation}})[0];
  }
  active = b.dropout(active, settings.dropout, active_name + ".dropout");
  return affine(b, active, prefix + settings.names.down,
                {.weight = {inner, "embed"},
                 .bias = settings.bias ? Dims{"embed"} : Dims{},
                 .result = {"batch", "seq", "embed"},
                 .deviation = settings.output_deviation});
}

namespace {

/// The dims of `first`, then those of `second`.
Dims joined(Dims first, const Dims& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Projects the stream to queries, keys or values.
struct Projection {
  const std::string& name;
  /// Null for values, which are neither normalised nor rotated.
  const std::string* norm = nullptr;
  const Dims& heads;
  bool weight_gradient_is_zero = false;
  bool bias_gradient_is_zero = false;
};

class Builder {
 public:
  Builder(GraphBuilder& builder, const std::string& prefix, const Attention& settings)
      : b_(builder), prefix_(prefix), settings_(settings) {}

  Value build(Value x) {
    const Attention::Names& names = settings_.names;
    // A token that sees only itself has the probability 1 for itself, whatever its query and key.
    const bool scores_do_not_matter = settings_.window == 1;
    // A key bias shifts all scores of a row alike, unless the keys are rotated or normalised afterwards, or scores
    // bent.
    const bool key_bias_does_not_matter =
        scores_do_not_matter || (!settings_.rope && !settings_.head_norm && settings_.score_cap == 0);
    const Value q =
        project(x, {names.query, &names.query_norm, settings_.query_heads, scores_do_not_matter, scores_do_not_matter});
    const Value k =
        project(x, {names.key, &names.key_norm, settings_.key_heads, scores_do_not_matter, key_bias_does_not_matter});
    const Value v = project(x, {names.value, nullptr, settings_.key_heads});
    const Value mixed = mix(q, k, v);
    const Dims from = joined(settings_.query_heads, {"head_dim"});
    return affine(b_, mixed, prefix_ + names.output,
                  {.weight = joined(from, {"embed"}),
                   .bias = settings_.output_bias ? Dims{"embed"} : Dims{},
                   .result = {"batch", "seq", "embed"},
                   .deviation = settings_.output_deviation});
  }

 private:
  /// Attention of queries, keys and values.
  Value mix(Value q, Value k, Value v) {
    AttentionOptions options{.causal = settings_.causal, .dropout = settings_.dropout, .window = settings_.window};
    if (settings_.score_scale > 0) options.scale = settings_.score_scale;
    options.cap = settings_.score_cap;
    options.documents = settings_.documents;
    return b_.attention(q, k, v, options, prefix_ + settings_.names.attention);
  }

  Value project(Value x, const Projection& projection) {
    const Dims to = joined(projection.heads, {"head_dim"});
    const std::string name = prefix_ + projection.name;
    Value y = affine(b_, x, name,
                     {.weight = joined({"embed"}, to),
                      .bias = settings_.projection_bias ? to : Dims{},
                      .result = joined({"batch", "seq"}, to),
                      .weight_gradient_is_zero = projection.weight_gradient_is_zero,
                      .bias_gradient_is_zero = projection.bias_gradient_is_zero});
    if (projection.norm == nullptr) return y;
    if (settings_.head_norm) {
      const Dims heads = settings_.norm_of_all_heads ? to : Dims{"head_dim"};
      y = normalize(b_, y, heads, prefix_ + *projection.norm, *settings_.head_norm, projection.weight_gradient_is_zero);
    }
    return settings_.rope ? rotate(b_, y, *settings_.rope, name + ".rope") : y;
  }

  GraphBuilder& b_;
  const std::string& prefix_;
  const Attention& settings_;
};

}  // namespace

Value attend(GraphBuilder& builder, Value x, const std::string& prefix, const Attention& settings) {
  return Builder(builder, prefix, settings).build(x);
}

}  // namespace strata::models
