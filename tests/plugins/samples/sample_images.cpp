#include <numeric>

#include "strata/model.hpp"

namespace {

using namespace strata;

/// Classifies images by two layers: images -> linear -> GELU -> linear -> cross-entropy. The data fixes all sizes but
/// the width of the hidden layer.
class SampleImages final : public Model {
 public:
  explicit SampleImages(std::int64_t hidden) : hidden_(hidden) {}

  void build(GraphBuilder& b) const override {
    b.define_dim("ffn", hidden_);
    const Value images = b.input("images", {"batch", "channels", "height", "width"}, b.float_type());
    const Value weight =
        b.parameter("up.weight", {"channels", "height", "width", "ffn"}, Initialization::normal(0.02), true);
    const Value bias = b.parameter("up.bias", {"ffn"}, Initialization::constant(0), false);
    const Value up = b.add(b.linear(images, weight, {"batch", "ffn"}, "up"), bias, "up.add_bias");
    b.begin_block(1);
    const Value active = b.activation(up, "gelu_tanh", "gelu");
    const Value head = b.parameter("head.weight", {"ffn", "classes"}, Initialization::normal(0.1), true);
    const Value scores = b.linear(active, head, {"batch", "classes"}, "head");
    b.output("scores", scores);
    b.cross_entropy_loss(scores, b.input("labels", {"batch"}), "loss");
  }

 private:
  std::int64_t hidden_;
};

class Factory final : public ModelFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<Model> create(const Options& options) const override {
    return std::make_unique<SampleImages>(options.integer("hidden"));
  }
  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    const auto multiple = request.multiples.find("ffn");
    Options small = options;
    small.set("hidden",
              std::lcm(multiple == request.multiples.end() ? std::int64_t{1} : multiple->second, std::int64_t{8}));
    return small;
  }

 private:
  OptionSchema schema_ = {{.name = "hidden",
                           .type = OptionType::integer,
                           .default_value = OptionValue(std::int64_t{32}),
                           .documentation = "Width of the hidden layer.",
                           .minimum = 1}};
};

}  // namespace

STRATA_PLUGIN(model, "sample_images", "1.0.0", "Apache-2.0", "A small classifier of images.", Factory);
