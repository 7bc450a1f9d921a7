#include "common/options.hpp"

#include <string>

#include "llama.hpp"
#include "strata/error.hpp"

namespace llama {
namespace {

using namespace strata;
using models::Rope;
using models::RopeScaling;
using models::size_option;

/// A Hugging Face model.
struct NamedSize {
  std::string name;
  Settings settings;
};

/// Llama 3.1 and later.
Rope llama3_rope(double factor) {
  return {.base = 500000,
          .scaling = {.kind = RopeScaling::Kind::llama3,
                      .factor = factor,
                      .original_context = 8192,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4}};
}

/// The published sizes that `size` accepts. Their context is that of the published training, which `context` shortens.
const std::vector<NamedSize>& named_sizes() {
  static const std::vector<NamedSize> kSizes = {
      {"llama2-7b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 32,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 11008,
        .context = 4096,
        .vocab = 32000}},
      {"llama3-8b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 14336,
        .context = 8192,
        .vocab = 128256,
        .rope = {.base = 500000}}},
      {"llama3.1-8b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 14336,
        .context = 131072,
        .vocab = 128256,
        .rope = llama3_rope(8)}},
      {"llama3.2-1b",
       {.layers = 16,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 64,
        .embed = 2048,
        .ffn = 8192,
        .context = 131072,
        .vocab = 128256,
        .rope = llama3_rope(32),
        .tied = true}},
      {"mistral-7b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 14336,
        .context = 32768,
        .vocab = 32000,
        .window = 4096}},
      {"qwen2-0.5b",
       {.layers = 24,
        .heads = 14,
        .kv_heads = 2,
        .head_dim = 64,
        .embed = 896,
        .ffn = 4864,
        .context = 131072,
        .vocab = 151936,
        .norm_epsilon = 1e-6,
        .rope = {.base = 1000000},
        .tied = true,
        .qkv_bias = true}},
      {"qwen3-0.6b",
       {.layers = 28,
        .heads = 16,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 1024,
        .ffn = 3072,
        .context = 40960,
        .vocab = 151936,
        .norm_epsilon = 1e-6,
        .rope = {.base = 1000000},
        .tied = true,
        .qk_norm = true}},
      {"smollm2-135m",
       {.layers = 30,
        .heads = 9,
        .kv_heads = 3,
        .head_dim = 64,
        .embed = 576,
        .ffn = 1536,
        .context = 8192,
        .vocab = 49152,
        .rope = {.base = 100000},
        .tied = true}},
  };
  return kSizes;
}

/// A property that is the size's own unless it is set.
OptionSpecification choice_field(const std::string& name, const std::string& documentation) {
  return option::word(name, "auto", documentation + "; auto: as the size has it, no for custom.",
                      {"auto", "yes", "no"});
}

std::vector<std::string> size_names() {
  std::vector<std::string> names = {"custom"};
  for (const NamedSize& each : named_sizes()) names.push_back(each.name);
  return names;
}

/// Overrides the fields of a size by the options that are set.
class Overrides {
 public:
  explicit Overrides(const Options& options) : options_(options) {}

  bool integer(const char* name, std::int64_t& field) const {
    if (options_.integer(name) <= 0) return false;
    field = options_.integer(name);
    return true;
  }
  void number(const char* name, double& field) const {
    if (options_.number(name) > 0) field = options_.number(name);
  }
  void choice(const char* name, bool& field) const {
    if (options_.word(name) != "auto") field = options_.word(name) == "yes";
  }

 private:
  const Options& options_;
};

void override_rope(const Options& options, models::Rope& rope) {
  const Overrides overrides(options);
  overrides.number("rope_base", rope.base);
  const std::string& kind = options.word("rope_scaling");
  if (kind == "none") rope.scaling = {};
  if (kind == "linear") rope.scaling.kind = RopeScaling::Kind::linear;
  if (kind == "llama3") rope.scaling.kind = RopeScaling::Kind::llama3;
  if (kind == "yarn") rope.scaling.kind = RopeScaling::Kind::yarn;
  overrides.number("rope_factor", rope.scaling.factor);
  overrides.number("rope_original_context", rope.scaling.original_context);
  overrides.number("rope_low_freq_factor", rope.scaling.low_freq_factor);
  overrides.number("rope_high_freq_factor", rope.scaling.high_freq_factor);
  overrides.number("rope_beta_fast", rope.scaling.beta_fast);
  overrides.number("rope_beta_slow", rope.scaling.beta_slow);
  overrides.number("rope_attention_factor", rope.scaling.attention_factor);
  if (rope.scaling.kind == RopeScaling::Kind::llama3 && rope.scaling.low_freq_factor >= rope.scaling.high_freq_factor) {
    throw OptionError("rope_high_freq_factor", "is not above rope_low_freq_factor");
  }
}

std::int64_t equal_head_dim(const Settings& settings) {
  if (settings.embed % settings.heads != 0) {
    throw OptionError("heads", "found " + std::to_string(settings.heads) + "; accepted: a divisor of embed = " +
                                   std::to_string(settings.embed) + ", or an option head_dim");
  }
  return settings.embed / settings.heads;
}

void require_consistent(const Settings& settings) {
  if (settings.heads % settings.kv_heads != 0) {
    throw OptionError("kv_heads", "found " + std::to_string(settings.kv_heads) +
                                      "; accepted: a divisor of heads = " + std::to_string(settings.heads));
  }
  if (settings.head_dim < 2 || settings.head_dim % 2 != 0) {
    throw OptionError("head_dim", "found " + std::to_string(settings.head_dim) +
                                      "; accepted: an even number, since rotary positions rotate pairs");
  }
}

}  // namespace

OptionSchema option_schema() {
  return {
      option::word("size", "custom", "A Hugging Face model, which gives all fields; fields that are set override it.",
                   size_names()),
      size_option("layers", "Transformer blocks; 0: the size's, 12 for custom.", 4096),
      size_option("heads", "Heads of queries; 0: the size's, 12 for custom.", 4096),
      size_option("kv_heads",
                  "Heads of keys and values; must divide heads; 0: the size's, or as many as heads if heads is set or "
                  "the size is custom.",
                  4096),
      size_option("head_dim", "Width of a head, an even number; 0: the size's, embed / heads for custom.", 65536),
      size_option("embed", "Width of the residual stream; 0: the size's, 768 for custom.", 1048576),
      size_option("ffn", "Inner width of the feed-forward block; 0: the size's, 8 / 3 embed for custom.", 4194304),
      size_option("context", "Tokens of a sequence; 0: the size's, 1024 for custom.", 16777216),
      size_option(
          "published_context",
          "Context that an exported config.json names if it is longer than context, as after training an imported "
          "model on shorter texts.",
          16777216),
      size_option("vocab", "Rows of the embedding; 0: as many as the tokenizer has, or the size's.", 16777216),
      option::number("norm_epsilon", 0, 0, 1, "Added to the mean square in norms; 0: the size's, 1e-5 for custom."),
      option::number("rope_base", 0, 0, 1e12, "Base of the rotary angles; 0: the size's, 10000 for custom."),
      option::word("rope_scaling", "auto",
                   "How rotary angles are stretched to longer texts; auto: as the size has it, none for custom.",
                   {"auto", "none", "linear", "llama3", "yarn"}),
      option::number("rope_factor", 0, 0, 1e6, "Factor of the stretching; 0: the size's, 1 for custom."),
      option::number("rope_original_context", 0, 0, 16777216,
                     "Tokens of the context before the stretching (llama3, yarn); 0: the size's, 8192 for custom."),
      option::number("rope_low_freq_factor", 0, 0, 1e6, "Turns below which an angle is slow (llama3); 0: 1."),
      option::number("rope_high_freq_factor", 0, 0, 1e6, "Turns from which an angle is fast (llama3); 0: 4."),
      option::number("rope_beta_fast", 0, 0, 1e6, "Turns at the fast end of the ramp (yarn); 0: 32."),
      option::number("rope_beta_slow", 0, 0, 1e6, "Turns at the slow end of the ramp (yarn); 0: 1."),
      option::number("rope_attention_factor", 0, 0, 1e6,
                     "Factor of cosines and sines (yarn); 0: 0.1 ln(rope_factor) + 1."),
      choice_field("tied", "The output projection is the embedding"),
      choice_field("qkv_bias", "Biases of the projections to queries, keys and values"),
      choice_field("output_bias", "A bias of the attention's output projection"),
      choice_field("mlp_bias", "Biases of the feed-forward block"),
      choice_field("qk_norm", "A norm of every head of queries and keys"),
      option::integer("window", -1, -1, 16777216,
                      "Tokens that attention sees: a token itself and the ones just before it; 0: all before it; -1: "
                      "the size's, 0 for custom."),
      option::integer("window_layers", -1, -1, 4096,
                      "Number of blocks with the window, counted from the last; -1: all."),
      option::number("attention_dropout", 0.0, 0, 0.99, "Probability with which attention weights are dropped."),
      models::documents_option()};
}

Settings settings_from(const Options& options) {
  Settings settings;
  const bool custom = options.word("size") == "custom";
  for (const NamedSize& size : named_sizes()) {
    if (options.word("size") == size.name) settings = size.settings;
  }
  const Overrides overrides(options);
  overrides.integer("layers", settings.layers);
  overrides.integer("embed", settings.embed);
  const bool sets_heads = overrides.integer("heads", settings.heads);
  const bool sets_kv_heads = overrides.integer("kv_heads", settings.kv_heads);
  const bool sets_head_dim = overrides.integer("head_dim", settings.head_dim);
  const bool sets_ffn = overrides.integer("ffn", settings.ffn);
  if ((custom || sets_heads) && !sets_kv_heads) settings.kv_heads = settings.heads;
  if (custom && !sets_head_dim) settings.head_dim = equal_head_dim(settings);
  // As many parameters as a plain block of width 4 · embed.
  if (custom && !sets_ffn) settings.ffn = settings.embed * 8 / 3;
  overrides.integer("context", settings.context);
  overrides.integer("published_context", settings.published_context);
  overrides.integer("vocab", settings.vocab);
  overrides.number("norm_epsilon", settings.norm_epsilon);
  override_rope(options, settings.rope);
  overrides.choice("tied", settings.tied);
  overrides.choice("qkv_bias", settings.qkv_bias);
  overrides.choice("output_bias", settings.output_bias);
  overrides.choice("mlp_bias", settings.mlp_bias);
  overrides.choice("qk_norm", settings.qk_norm);
  if (options.integer("window") >= 0) settings.window = options.integer("window");
  settings.window_layers = options.integer("window_layers");
  settings.attention_dropout = options.number("attention_dropout");
  settings.documents = options.boolean("documents");
  require_consistent(settings);
  return settings;
}

}  // namespace llama
