/// forecaster: a transformer that predicts the next level of a series. Its attention is its own, and its positions lie
/// along "time". It has no parallel code.

#include <algorithm>
#include <numeric>
#include <string>

#include "capped_attention.hpp"
#include "strata/error.hpp"
#include "strata/model.hpp"

namespace capped {
namespace {

using namespace strata;

constexpr double kDeviation = 0.05;

struct Settings {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t embed = 0;
  std::int64_t length = 0;
  double cap = 0;
};

class Forecaster final : public Model {
 public:
  explicit Forecaster(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] DimSizes sizes() const override { return {{"time", settings_.length}}; }

  /// The dataset fixes the size of "level".
  void build(GraphBuilder& b) const override {
    b.define_dim("embed", settings_.embed);
    b.define_dim("heads", settings_.heads);
    b.define_dim("head_dim", settings_.embed / settings_.heads);
    b.define_dim("ffn", 2 * settings_.embed);
    const Value table = b.parameter("level.weight", {"level", "embed"}, Initialization::normal(kDeviation), true);
    Value x = b.embedding(table, b.input("levels", {"batch", "time"}), "embedded");
    for (int layer = 0; layer < settings_.layers; ++layer) {
      b.begin_block(layer);
      x = add_layer(b, x, "layers." + std::to_string(layer) + ".");
    }
    const Value head = b.parameter("head.weight", {"embed", "level"}, Initialization::normal(kDeviation), true);
    const Value scores = b.linear(x, head, {"batch", "time", "level"}, "head");
    b.output("scores", scores);
    b.cross_entropy_loss(scores, b.input("next", {"batch", "time"}), "loss");
  }

 private:
  /// x + attention(norm(x)), then x + down(silu(up(norm(x)))). Names of nodes and parameters begin with `prefix`.
  [[nodiscard]] Value add_layer(GraphBuilder& b, Value x, const std::string& prefix) const {
    const auto linear = [&](Value from, const std::string& name, const Dims& weight, const Dims& result) {
      const Value matrix = b.parameter(prefix + name + ".weight", weight, Initialization::normal(kDeviation), true);
      return b.linear(from, matrix, result, prefix + name);
    };
    const auto norm = [&](const std::string& name) {
      const Value gain = b.parameter(prefix + name + ".weight", {"embed"}, Initialization::constant(1), false);
      const Value bias = b.parameter(prefix + name + ".bias", {"embed"}, Initialization::constant(0), false);
      return b.layer_norm(x, gain, bias, 1e-5, prefix + name);
    };
    const Dims stream{"batch", "time", "embed"};
    const Value from = norm("attention_norm");
    const auto heads = [&](const std::string& name) {
      return linear(from, name, {"embed", "heads", "head_dim"}, {"batch", "time", "heads", "head_dim"});
    };
    const Value mixed =
        capped_attention(b, heads("query"), heads("key"), heads("value"), settings_.cap, prefix + "attention");
    x = b.add(x, linear(mixed, "output", {"heads", "head_dim", "embed"}, stream), prefix + "attention_residual");
    const Value up = linear(norm("ffn_norm"), "up", {"embed", "ffn"}, {"batch", "time", "ffn"});
    const Value down = linear(b.activation(up, "silu", prefix + "silu"), "down", {"ffn", "embed"}, stream);
    return b.add(x, down, prefix + "ffn_residual");
  }

  Settings settings_;
};

class ForecasterFactory final : public ModelFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& /*options*/) const override {
    register_capped_attention(registration);
  }

  [[nodiscard]] std::unique_ptr<Model> create(const Options& options) const override {
    const Settings settings{options.integer("layers"), options.integer("heads"), options.integer("embed"),
                            options.integer("length"), options.number("cap")};
    if (settings.embed % settings.heads != 0) {
      throw OptionError("heads", "found " + std::to_string(settings.heads) +
                                     "; accepted: a divisor of embed = " + std::to_string(settings.embed));
    }
    return std::make_unique<Forecaster>(settings);
  }

  /// `strata verify` trains this small model in f64. A stack may need sizes that its axes divide.
  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    const auto multiple_of = [&](const char* dim, std::int64_t size) {
      const auto found = request.multiples.find(dim);
      return std::lcm(found == request.multiples.end() ? std::int64_t{1} : found->second, size);
    };
    Options small = options;
    if (!request.keeps_blocks) small.set("layers", std::int64_t{2});
    const std::int64_t heads = multiple_of("heads", 2);
    small.set("heads", heads);
    small.set("embed",
              std::lcm(heads * multiple_of("head_dim", 4), std::lcm(multiple_of("embed", 1), multiple_of("ffn", 1))));
    small.set("length", multiple_of("time", 8));
    return small;
  }

 private:
  static OptionSpecification size(const std::string& name, std::int64_t value, const std::string& documentation) {
    return {.name = name,
            .type = OptionType::integer,
            .default_value = value,
            .documentation = documentation,
            .minimum = 1,
            .maximum = 1 << 20};
  }

  OptionSchema schema_{size("layers", 2, "Number of layers."),
                       size("heads", 4, "Heads of the attention."),
                       size("embed", 32, "Width of the model."),
                       size("length", 32, "Levels of a sample."),
                       {.name = "cap",
                        .type = OptionType::number,
                        .default_value = 20.0,
                        .documentation = "No score of the attention is larger.",
                        .minimum = 1e-3,
                        .maximum = 100}};
};

}  // namespace
}  // namespace capped

STRATA_PLUGIN(model, "forecaster", "1.0.0", "MIT", "A transformer for series, whose attention has capped scores.",
              capped::ForecasterFactory);
