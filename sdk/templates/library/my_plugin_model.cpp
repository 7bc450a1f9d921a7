/// A model for the tests of the op my_plugin: residual feed-forward layers between an embedding and a head.

#include <algorithm>
#include <numeric>
#include <string>

#include "strata/model.hpp"

namespace {

using strata::Initialization;
using strata::Value;

constexpr double kDeviation = 0.02;

struct ModelSettings {
  std::int64_t layers = 0;
  std::int64_t embed = 0;
  std::int64_t ffn = 0;
  std::int64_t context = 0;
};

/// It contains no parallel code: strategies recognise dimensions by their names.
class ModelWithMyPlugin final : public strata::Model {
 public:
  explicit ModelWithMyPlugin(const ModelSettings& settings) : settings_(settings) {}

  [[nodiscard]] strata::DimSizes sizes() const override { return {{"seq", settings_.context}}; }

  /// The dataset fixes the size of "vocab".
  void build(strata::GraphBuilder& b) const override {
    b.define_dim("embed", settings_.embed);
    b.define_dim("ffn", settings_.ffn);
    const Value tokens = b.input("tokens", {"batch", "seq"});
    const Value table = b.parameter("embedding", {"vocab", "embed"}, Initialization::normal(kDeviation), true);
    Value x = b.embedding(table, tokens, "embedded");
    for (int layer = 0; layer < settings_.layers; ++layer) {
      b.begin_block(layer);
      x = add_layer(b, x, "layers." + std::to_string(layer) + ".");
    }
    const Value head = b.parameter("head.weight", {"embed", "vocab"}, Initialization::normal(kDeviation), true);
    const Value logits = b.linear(x, head, {"batch", "seq", "vocab"}, "head");
    b.output("logits", logits);
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
  }

  /// `strata generate` reads the output "logits".
  [[nodiscard]] std::optional<strata::Generation> generation() const override { return strata::Generation{}; }

 private:
  /// x + down(my_plugin(up(norm(x)))). Names of nodes and parameters begin with `prefix`.
  static Value add_layer(strata::GraphBuilder& b, Value x, const std::string& prefix) {
    const auto matrix = [&](const std::string& name, const strata::Dims& dims) {
      return b.parameter(prefix + name, dims, Initialization::normal(kDeviation), true);
    };
    const Value gain = b.parameter(prefix + "norm.weight", {"embed"}, Initialization::constant(1), false);
    const Value bias = b.parameter(prefix + "norm.bias", {"embed"}, Initialization::constant(0), false);
    const Value normal = b.layer_norm(x, gain, bias, 1e-5, prefix + "norm");
    const Value up = b.linear(normal, matrix("up.weight", {"embed", "ffn"}), {"batch", "seq", "ffn"}, prefix + "up");
    const Value active = b.op("my_plugin", {up}, prefix + "my_plugin")[0];
    const Value down = matrix("down.weight", {"ffn", "embed"});
    return b.add(x, b.linear(active, down, {"batch", "seq", "embed"}, prefix + "down"), prefix + "residual");
  }

  ModelSettings settings_;
};

class ModelFactory final : public strata::ModelFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<strata::Model> create(const strata::Options& options) const override {
    return std::make_unique<ModelWithMyPlugin>(ModelSettings{.layers = options.integer("layers"),
                                                             .embed = options.integer("embed"),
                                                             .ffn = options.integer("ffn"),
                                                             .context = options.integer("context")});
  }

  /// `strata verify` trains this small model in f64. A stack may need sizes that its axes divide.
  [[nodiscard]] strata::Options shrink(const strata::Options& options,
                                       const strata::ShrinkRequest& request) const override {
    const auto multiple_of = [&](const char* dim, std::int64_t size) {
      const auto found = request.multiples.find(dim);
      return std::lcm(found == request.multiples.end() ? std::int64_t{1} : found->second, size);
    };
    strata::Options small = options;
    if (!request.keeps_blocks) small.set("layers", std::int64_t{2});
    small.set("embed", multiple_of("embed", 8));
    small.set("ffn", multiple_of("ffn", 8));
    small.set("context", multiple_of("seq", 8));
    return small;
  }

 private:
  static strata::OptionSpecification size(const std::string& name, std::int64_t value,
                                          const std::string& documentation) {
    return {.name = name,
            .type = strata::OptionType::integer,
            .default_value = value,
            .documentation = documentation,
            .minimum = 1};
  }

  strata::OptionSchema schema_{size("layers", 2, "Number of layers."), size("embed", 32, "Width of the model."),
                               size("ffn", 128, "Width of a layer's hidden part."),
                               size("context", 32, "Tokens of a sample.")};
};

}  // namespace

STRATA_PLUGIN(model, "my_plugin_model", "0.1.0", "Apache-2.0", "Residual layers with the op my_plugin.", ModelFactory);
