#include "common/options.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "llama.hpp"
#include "model_type.hpp"
#include "strata/error.hpp"

namespace llama {
namespace {

using namespace strata;
using models::Overrides;
using models::RopeScaling;
using models::size_option;

/// A number of the size unless it is set.
OptionSpecification size_number(const std::string& name, const std::string& documentation, double maximum,
                                const std::string& custom) {
  return option::number(name, 0, 0, maximum, documentation + "; 0: the size's, " + custom + " for custom.");
}

/// A property that is the size's own unless it is set.
OptionSpecification choice_field(const std::string& name, const std::string& documentation) {
  return option::word(name, "auto", documentation + "; auto: as the size has it, no for custom.",
                      {"auto", "yes", "no"});
}

OptionSpecification factors_option(const std::string& name, const std::string& contexts) {
  return {name, OptionType::numbers, OptionValue(std::vector<double>{}),
          "Divisors of the angles if the context is " + contexts + ", one for each angle (longrope)."};
}

std::vector<std::string> type_words(Kind kind) {
  std::vector<std::string> words = model_type_names(kind);
  words.insert(words.begin(), "auto");
  return words;
}

std::vector<std::string> size_names(Kind kind) {
  std::vector<std::string> names = {"custom"};
  for (const NamedSize& each : named_sizes()) {
    if (each.settings.kind() == kind) names.push_back(each.name);
  }
  return names;
}

constexpr std::array kRopeScalings{"none", "linear", "llama3", "yarn", "longrope"};

void override_rope(const Options& options, models::Rope& rope) {
  const Overrides overrides(options);
  overrides.number("rope_base", rope.base);
  overrides.number("rope_fraction", rope.fraction);
  if (options.word("rope_scaling") == "none") rope.scaling = {};
  overrides.one_of("rope_scaling", kRopeScalings, rope.scaling.kind);
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

/// `settings`: with all sizes.
void override_longrope(const Options& options, Settings& settings) {
  RopeScaling& scaling = settings.rope.scaling;
  if (scaling.kind != RopeScaling::Kind::longrope) return;
  if (scaling.original_context <= 1) {
    throw OptionError("rope_original_context", "found " + std::to_string(scaling.original_context) +
                                                   "; accepted: above 1 with rope_scaling = \"longrope\"");
  }
  scaling.short_factors = options.numbers("rope_short_factors");
  scaling.long_factors = options.numbers("rope_long_factors");
  const std::int64_t pairs = settings.rope.width(settings.head_dim) / 2;
  for (const char* name : {"rope_short_factors", "rope_long_factors"}) {
    const std::vector<double>& factors = options.numbers(name);
    const bool is_positive = std::all_of(factors.begin(), factors.end(), [](double factor) { return factor > 0; });
    if (is_positive && std::ssize(factors) == pairs) continue;
    throw OptionError(name, "found " + std::to_string(factors.size()) + " numbers; accepted: " + std::to_string(pairs) +
                                ", each above 0, one for each angle");
  }
  if (options.number("rope_factor") > 0) return;
  const auto context = static_cast<double>(std::max(settings.context, settings.published_context));
  scaling.factor = context / scaling.original_context;
}

void override_factors(const Options& options, Settings& settings) {
  const Overrides overrides(options);
  overrides.number("local_rope_base", settings.local_rope_base);
  overrides.choice("scaled_embedding", settings.scaled_embedding);
  overrides.number("embedding_multiplier", settings.embedding_multiplier);
  overrides.number("residual_multiplier", settings.residual_multiplier);
  overrides.number("attention_multiplier", settings.attention_multiplier);
  overrides.number("logits_scaling", settings.logits_scaling);
  overrides.number("attention_cap", settings.attention_cap);
  overrides.number("logit_cap", settings.logit_cap);
}

void override_experts(const Options& options, models::ExpertChoice& experts) {
  const Overrides overrides(options);
  const bool is_custom = experts.count == 0;
  if (is_custom) experts.count = 8;
  overrides.integer("experts", experts.count);
  overrides.integer("choices", experts.choices);
  if (experts.choices > experts.count) {
    throw OptionError("choices", "found " + std::to_string(experts.choices) +
                                     "; accepted: 1 to experts = " + std::to_string(experts.count));
  }
  experts.sigmoid = options.word("scores") == "sigmoid";
  // One gate divided by itself is 1, so the loss would not teach the router.
  if (is_custom && experts.choices == 1) experts.normalize = false;
  overrides.choice("normalize", experts.normalize);
  overrides.integer("shared_ffn", experts.shared_width);
  experts.balance_loss = options.number("balance_loss");
  experts.switch_loss = options.number("switch_loss");
  if (experts.sigmoid && experts.switch_loss > 0) {
    throw OptionError("switch_loss", "found " + std::to_string(experts.switch_loss) +
                                         "; accepted: 0 with scores = \"sigmoid\", which are no probabilities");
  }
  experts.z_loss = options.number("z_loss");
  experts.balance_bias = options.number("balance_bias");
}

std::vector<OptionSpecification> expert_options() {
  return {
      size_option("experts", "Experts of a block; 0: the size's, 8 for custom.", 65536),
      size_option("choices", "Experts of a token, at most experts; 0: the size's, 2 for custom.", 65536),
      option::word("scores", "softmax", "How the router's logits become scores, of which a token chooses the largest.",
                   {"softmax", "sigmoid"}),
      option::word("normalize", "auto",
                   "The gates of a token are divided by their sum; with softmax they are then the softmax of the "
                   "chosen logits alone; auto: as the size has it, for custom yes, or no with one choice.",
                   {"auto", "yes", "no"}),
      size_option("shared_ffn", "Inner width of an expert that all tokens use besides; 0: none.", 4194304),
      option::number("balance_loss", 0.0, 0, 1e6,
                     "Weight of the loss that is least if the tokens of a sequence choose all experts alike."),
      option::number("switch_loss", 0.0, 0, 1e6,
                     "Weight of the loss that is least if the tokens of a micro-batch on all replicas choose all "
                     "experts alike."),
      option::number("z_loss", 0.0, 0, 1e6, "Weight of the loss that keeps the router's logits small."),
      option::number(
          "balance_bias", 0.0, 0, 1e6,
          "How far each step moves a bias of each expert, which counts in the choice alone, towards an equal "
          "load of all experts; 0: no bias.")};
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
  const std::int64_t width = settings.rope.width(settings.head_dim);
  if (width < 2 || width % 2 != 0) {
    const bool is_partial = width < settings.head_dim;
    throw OptionError(is_partial ? "rope_fraction" : "head_dim",
                      "found " + std::to_string(width) + (is_partial ? " features of a head" : "") +
                          "; accepted: an even number, since rotary positions rotate pairs");
  }
  if (settings.global_every > 0 && settings.window_layers >= 0) {
    throw OptionError("window_layers", "found " + std::to_string(settings.window_layers) +
                                           "; accepted: -1 with global_every, which says which blocks have the window");
  }
}

constexpr std::array kHeadNorms{"no", "yes", "all_heads"};
constexpr std::array kNormPlaces{"before", "after", "both"};

}  // namespace

std::string word_of(bool value) { return value ? "yes" : "no"; }
std::string word_of(HeadNorm norm) { return kHeadNorms.at(static_cast<std::size_t>(norm)); }
std::string word_of(NormPlace place) { return kNormPlaces.at(static_cast<std::size_t>(place)); }
std::string word_of(RopeScaling::Kind kind) { return kRopeScalings.at(static_cast<std::size_t>(kind)); }

OptionSchema option_schema(Kind kind) {
  const bool is_dense = kind == Kind::dense;
  std::vector<OptionSpecification> options = {
      option::word("size", "custom", "A Hugging Face model, which gives all fields; fields that are set override it.",
                   size_names(kind)),
      size_option("layers", "Transformer blocks; 0: the size's, 12 for custom.", 4096),
      size_option("heads", "Heads of queries; 0: the size's, 12 for custom.", 4096),
      size_option("kv_heads",
                  "Heads of keys and values; must divide heads; 0: the size's, or as many as heads if heads is set or "
                  "the size is custom.",
                  4096),
      size_option("head_dim", "Width of a head, an even number; 0: the size's, embed / heads for custom.", 65536),
      size_option("embed", "Width of the residual stream; 0: the size's, 768 for custom.", 1048576),
      size_option("ffn",
                  is_dense ? "Inner width of the feed-forward block; 0: the size's, 8 / 3 embed for custom."
                           : "Inner width of an expert; 0: the size's, 8 / 3 embed for custom.",
                  4194304),
      size_option("context", "Tokens of a sequence; 0: the size's, 1024 for custom.", 16777216),
      size_option(
          "published_context",
          "Context that an exported config.json names if it is longer than context, as after training an imported "
          "model on shorter texts.",
          16777216),
      size_option("vocab", "Rows of the embedding; 0: as many as the tokenizer has, or the size's.", 16777216),
      option::number("norm_epsilon", 0, 0, 1, "Added to the mean square in norms; 0: the size's, 1e-5 for custom."),
      option::number("rope_base", 0, 0, 1e12, "Base of the rotary angles; 0: the size's, 10000 for custom."),
      option::number("rope_fraction", 0, 0, 1,
                     "Part of a head's features that rotary positions turn, from the first on; 0: the size's, 1 for "
                     "custom."),
      option::word("rope_scaling", "auto",
                   "How rotary angles are stretched to longer texts; auto: as the size has it, none for custom.",
                   {"auto", "none", "linear", "llama3", "yarn", "longrope"}),
      option::number("rope_factor", 0, 0, 1e6,
                     "Factor of the stretching; 0: the size's, 1 for custom; longrope: the longer of context and "
                     "published_context, divided by rope_original_context."),
      option::number(
          "rope_original_context", 0, 0, 16777216,
          "Tokens of the context before the stretching (llama3, yarn, longrope); 0: the size's, 8192 for custom."),
      option::number("rope_low_freq_factor", 0, 0, 1e6, "Turns below which an angle is slow (llama3); 0: 1."),
      option::number("rope_high_freq_factor", 0, 0, 1e6, "Turns from which an angle is fast (llama3); 0: 4."),
      option::number("rope_beta_fast", 0, 0, 1e6, "Turns at the fast end of the ramp (yarn); 0: 32."),
      option::number("rope_beta_slow", 0, 0, 1e6, "Turns at the slow end of the ramp (yarn); 0: 1."),
      option::number("rope_attention_factor", 0, 0, 1e6,
                     "Factor of cosines and sines (yarn, longrope); 0: 0.1 ln(rope_factor) + 1 of yarn, and the root "
                     "of 1 + ln(rope_factor) / ln(rope_original_context) of longrope."),
      factors_option("rope_short_factors", "up to rope_original_context tokens"),
      factors_option("rope_long_factors", "longer than that"),
      size_number("local_rope_base", "Base of the rotary angles in blocks with the window, which are not stretched",
                  1e12, "rope_base"),
      size_option("no_rope_every", "Every so many blocks, one has no rotary positions; 0: the size's, none for custom.",
                  4096),
      choice_field("norm_plus_one", "Norms multiply by 1 + their weights, which begin at 0"),
      option::word("norm_place", "auto",
                   "Where attention and feed-forward block have a norm; auto: as the size has it, before for custom.",
                   {"auto", "before", "after", "both"}),
      choice_field("tied", "The output projection is the embedding"),
      choice_field("qkv_bias", "Biases of the projections to queries, keys and values"),
      choice_field("output_bias", "A bias of the attention's output projection"),
      choice_field("mlp_bias", "Biases of the feed-forward block"),
      option::word("qk_norm", "auto",
                   "A norm of queries and keys: yes for every head, all_heads for all heads of a token together; auto: "
                   "as the size has it, no for custom.",
                   {"auto", "yes", "no", "all_heads"}),
      option::word("activation", "auto",
                   "Function of the feed-forward block's gate; auto: as the size has it, silu for custom.",
                   {"auto", "silu", "gelu_tanh"}),
      option::integer("window", -1, -1, 16777216,
                      "Tokens that attention sees: a token itself and the ones just before it; 0: all before it; -1: "
                      "the size's, 0 for custom."),
      option::integer("window_layers", -1, -1, 4096,
                      "Number of blocks with the window, counted from the last; -1: all."),
      size_option("global_every",
                  "Every so many blocks, one sees all tokens instead of the window; 0: the size's, none for custom.",
                  4096),
      choice_field("scaled_embedding", "Embeddings are multiplied by the square root of their width"),
      size_number("embedding_multiplier", "Factor of embeddings", 1e6, "1"),
      size_number("residual_multiplier", "Factor of what attention and feed-forward block add to the stream", 1e6, "1"),
      size_number("attention_multiplier", "Factor of the products of queries and keys", 1e6, "1 / sqrt(head_dim)"),
      size_number("logits_scaling", "Divisor of logits", 1e6, "1"),
      size_number("attention_cap", "Bound of attention's scores, which a tanh bends to stay within", 1e6, "none"),
      size_number("logit_cap", "Bound of logits, which a tanh bends to stay within", 1e6, "none"),
      option::word("model_type", "auto",
                   "The Hugging Face type of exported files, if it has all properties of the model; auto: the size's, "
                   "or the first that has.",
                   type_words(kind)),
      option::number("attention_dropout", 0.0, 0, 0.99, "Probability with which attention weights are dropped."),
      option::number("residual_dropout", 0.0, 0, 0.99,
                     "Probability with which elements of the results of attention and feed-forward block are dropped."),
      models::documents_option()};
  if (is_dense) return OptionSchema(std::move(options));
  std::erase_if(options, [](const OptionSpecification& each) { return each.name == "mlp_bias"; });
  for (OptionSpecification& each : expert_options()) options.push_back(std::move(each));
  return OptionSchema(std::move(options));
}

Settings settings_from(const Options& options) {
  Settings settings = models::settings_of_size(named_sizes(), options);
  const bool custom = options.word("size") == "custom";
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
  if (options.values().contains("mlp_bias")) overrides.choice("mlp_bias", settings.mlp_bias);
  overrides.one_of("qk_norm", kHeadNorms, settings.qk_norm);
  overrides.choice("norm_plus_one", settings.norm_plus_one);
  overrides.one_of("norm_place", kNormPlaces, settings.norm_place);
  if (options.word("activation") != "auto") settings.activation = options.word("activation");
  if (options.integer("window") >= 0) settings.window = options.integer("window");
  settings.window_layers = options.integer("window_layers");
  overrides.integer("global_every", settings.global_every);
  overrides.integer("no_rope_every", settings.no_rope_every);
  override_factors(options, settings);
  if (options.values().contains("experts")) override_experts(options, settings.experts);
  if (options.word("model_type") != "auto") settings.model_type = options.word("model_type");
  settings.attention_dropout = options.number("attention_dropout");
  settings.residual_dropout = options.number("residual_dropout");
  settings.documents = options.boolean("documents");
  require_consistent(settings);
  override_longrope(options, settings);
  return settings;
}

}  // namespace llama
