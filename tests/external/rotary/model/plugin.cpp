#include "strata/plugin.hpp"

#include <algorithm>
#include <numeric>

#include "model/decoder.hpp"
#include "model/huggingface.hpp"

namespace {

using namespace strata;

class DecoderFactory final : public ModelFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return rotary::option_schema(); }

  [[nodiscard]] std::unique_ptr<Model> create(const Options& options) const override {
    return std::make_unique<rotary::Decoder>(rotary::settings_from(options));
  }

  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    const auto multiple_of = [&](const char* dim, std::int64_t least) {
      const auto found = request.multiples.find(dim);
      return found == request.multiples.end() ? least : std::lcm(found->second, least);
    };
    // Two pairs per head, because with one pair all angles of a position are equal.
    const std::int64_t head = multiple_of("heads", 2) * multiple_of("head_dim", 4);
    const std::int64_t layers = options.integer("layers");
    Options small = options;
    small.set("layers", request.keeps_blocks ? layers : std::min<std::int64_t>(layers, 2));
    small.set("heads", multiple_of("heads", 2));
    small.set("embed", std::lcm(head, std::lcm(multiple_of("embed", 1), multiple_of("ffn", 1))));
    small.set("context", multiple_of("seq", 8));
    small.set("vocab", multiple_of("vocab", 16));
    return small;
  }

  [[nodiscard]] const HuggingFaceFormat* huggingface() const override { return &published_; }

 private:
  rotary::DecoderFormat published_;
};

}  // namespace

STRATA_PLUGIN(model, "rotary_decoder", "1.0.0", "MIT", "A small decoder-only transformer with rotary positions.",
              DecoderFactory);
