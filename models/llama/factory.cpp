#include <algorithm>
#include <numeric>

#include "common/options.hpp"
#include "llama.hpp"

namespace llama {
namespace {

using namespace strata;

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

class LlamaFactory final : public ModelFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return option_schema(); }

  [[nodiscard]] std::unique_ptr<Model> create(const Options& options) const override {
    return std::make_unique<Llama>(settings_from(options));
  }

  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    const Settings full = settings_from(options);
    const models::SmallSizes sizes(request);
    const bool grouped = full.kv_heads != full.heads;
    const std::int64_t kv_heads = sizes.several(grouped ? "kv_heads" : "heads");
    const std::int64_t heads = grouped ? kv_heads * sizes.several("group") : kv_heads;
    Options small = options;
    small.set("size", OptionValue(std::string("custom")));
    small.set("layers", OptionValue(sizes.blocks(full.layers)));
    small.set("heads", OptionValue(heads));
    small.set("kv_heads", OptionValue(kv_heads));
    // Two pairs a head, because with one pair all angles of a position are equal.
    small.set("head_dim", OptionValue(std::lcm(sizes.multiple("head_dim"), std::int64_t{4})));
    small.set("embed", OptionValue(std::lcm(sizes.multiple("embed"), std::int64_t{8})));
    small.set("ffn", OptionValue(std::lcm(sizes.multiple("ffn"), std::int64_t{6})));
    small.set("context",
              OptionValue(std::lcm(std::lcm(sizes.multiple("seq"), sizes.multiple("pos")), std::int64_t{8})));
    small.set("vocab", OptionValue(std::lcm(sizes.multiple("vocab"), std::int64_t{16})));
    keep_kind(full, small);
    return small;
  }

  [[nodiscard]] const HuggingFaceFormat* huggingface() const override { return &format_; }

 private:
  LlamaFormat format_;

  /// Sets what a published size implies and a custom one does not.
  static void keep_kind(const Settings& full, Options& small) {
    small.set("norm_epsilon", OptionValue(full.norm_epsilon));
    small.set("rope_base", OptionValue(full.rope.base));
    small.set("rope_factor", OptionValue(full.rope.scaling.factor));
    small.set("rope_original_context", OptionValue(full.rope.scaling.original_context));
    constexpr const char* kKinds[] = {"none", "linear", "llama3", "yarn"};
    small.set("rope_scaling", OptionValue(std::string(kKinds[static_cast<int>(full.rope.scaling.kind)])));
    small.set("tied", OptionValue(yes_or_no(full.tied)));
    small.set("qkv_bias", OptionValue(yes_or_no(full.qkv_bias)));
    small.set("output_bias", OptionValue(yes_or_no(full.output_bias)));
    small.set("mlp_bias", OptionValue(yes_or_no(full.mlp_bias)));
    small.set("qk_norm", OptionValue(yes_or_no(full.qk_norm)));
    // A window that still hides tokens of the short context, and a block with it.
    small.set("window", OptionValue(std::min<std::int64_t>(full.window, 3)));
    small.set("window_layers", OptionValue(std::min<std::int64_t>(full.window_layers, 1)));
  }
};

}  // namespace
}  // namespace llama

STRATA_PLUGIN(model, "llama", "0.1.0", "Apache-2.0",
              "The Llama family (Llama 2 and 3, Mistral, Qwen2, Qwen3, SmolLM), by name of size or by fields.",
              llama::LlamaFactory);
