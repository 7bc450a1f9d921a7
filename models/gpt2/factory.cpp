#include <algorithm>
#include <numeric>

#include "common/options.hpp"
#include "gpt2.hpp"

namespace gpt2 {
namespace {

using namespace strata;

class Gpt2Factory final : public ModelFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return option_schema(); }

  [[nodiscard]] std::unique_ptr<Model> create(const Options& options) const override {
    return std::make_unique<Gpt2>(settings_from(options));
  }

  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    const models::SmallSizes sizes(request);
    const Settings full = settings_from(options);
    const std::int64_t heads = sizes.several("heads");
    const std::int64_t head_dim = sizes.several("head_dim");
    const std::int64_t step = std::lcm(heads * head_dim, std::lcm(sizes.multiple("embed"), sizes.multiple("ffn")));
    const std::int64_t embed = step < 8 ? 8 / step * step : step;
    Options small = options;
    small.set("size", OptionValue(std::string("custom")));
    small.set("layers", OptionValue(sizes.blocks(full.layers)));
    small.set("heads", OptionValue(heads));
    small.set("embed", OptionValue(embed));
    small.set("context",
              OptionValue(std::lcm(std::lcm(sizes.multiple("seq"), sizes.multiple("pos")), std::int64_t{8})));
    // A window that still hides tokens of the short context.
    small.set("window", OptionValue(std::min<std::int64_t>(full.window, 3)));
    small.set("vocab", OptionValue(std::lcm(sizes.multiple("vocab"), std::int64_t{16})));
    return small;
  }

  [[nodiscard]] const HuggingFaceFormat* huggingface() const override { return &format_; }

 private:
  Gpt2Format format_;
};

}  // namespace
}  // namespace gpt2

STRATA_PLUGIN(model, "gpt2", "0.1.0", "Apache-2.0", "GPT-2 as published, by name of size or by fields.",
              gpt2::Gpt2Factory);
