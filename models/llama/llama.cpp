#include "llama.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "common/layers.hpp"
#include "common/options.hpp"

namespace llama {
namespace {

using namespace strata;

/// The angles of all blocks, and of those with a window if they differ.
struct Positions {
  models::RopeTables everywhere;
  std::optional<models::RopeTables> in_window;
};

/// Builds one block. Parameter names are those of the Hugging Face checkpoints.
class LayerBuilder {
 public:
  LayerBuilder(GraphBuilder& builder, const Settings& settings, const Positions& positions,
               std::optional<Value> documents, std::int64_t layer)
      : b_(builder),
        settings_(settings),
        norm_(norm_of(settings)),
        positions_(positions),
        documents_(documents),
        layer_(layer),
        prefix_("model.layers." + std::to_string(layer) + ".") {}

  static models::Norm norm_of(const Settings& settings) {
    return {.kind = models::Norm::Kind::root_mean_square,
            .epsilon = settings.norm_epsilon,
            .plus_one = settings.norm_plus_one};
  }

  Value build(Value x) {
    const bool is_before = settings_.norm_place != NormPlace::after;
    const bool is_after = settings_.norm_place != NormPlace::before;
    Value y = attention(is_before ? norm(x, "input_layernorm") : x);
    x = join(x, is_after ? norm(y, "post_attention_layernorm") : y, "self_attn");
    // The norm after attention has the name that elsewhere the second norm has.
    const char* second = is_after ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    y = feed_forward(is_before ? norm(x, second) : x);
    return join(x, is_after ? norm(y, "post_feedforward_layernorm") : y, "mlp");
  }

 private:
  Value norm(Value x, const std::string& name) { return models::normalize(b_, x, {"embed"}, prefix_ + name, norm_); }

  /// Adds the result of a branch to the stream.
  Value join(Value x, Value branch, const std::string& name) {
    const std::string joined = prefix_ + name + ".residual";
    if (settings_.residual_multiplier == 1) return b_.add(x, branch, joined);
    return b_.op("weighted_sum", {x, branch}, joined,
                 {{"factor0", 1.0}, {"factor1", settings_.residual_multiplier}})[0];
  }

  Value attention(Value x) {
    const std::int64_t window = settings_.window_of(layer_);
    models::Attention attention{.names = {.query = "self_attn.q_proj",
                                          .key = "self_attn.k_proj",
                                          .value = "self_attn.v_proj",
                                          .output = "self_attn.o_proj",
                                          .attention = "self_attn",
                                          .query_norm = "self_attn.q_norm",
                                          .key_norm = "self_attn.k_norm"},
                                .projection_bias = settings_.qkv_bias,
                                .output_bias = settings_.output_bias,
                                .norm_of_all_heads = settings_.qk_norm == HeadNorm::all,
                                .window = window,
                                .score_scale = settings_.attention_multiplier,
                                .score_cap = settings_.attention_cap,
                                .documents = documents_,
                                .dropout = settings_.attention_dropout,
                                .output_deviation = models::residual_deviation(settings_.layers)};
    if (settings_.kv_heads != settings_.heads) {
      attention.query_heads = {"kv_heads", "group"};
      attention.key_heads = {"kv_heads"};
    }
    if (settings_.qk_norm != HeadNorm::none) attention.head_norm = norm_;
    if (settings_.has_rope(layer_)) {
      attention.rope = window > 0 && positions_.in_window ? *positions_.in_window : positions_.everywhere;
    }
    return b_.dropout(models::attend(b_, x, prefix_, attention), settings_.residual_dropout,
                      prefix_ + "self_attn.dropout");
  }

  Value feed_forward(Value x) {
    const double deviation = models::residual_deviation(settings_.layers);
    if (settings_.kind() == Kind::mixture) {
      models::ExpertContext context{.activation = settings_.activation,
                                    .output_deviation = deviation,
                                    .metric = "expert_load." + std::to_string(layer_)};
      if (b_.mode() == GraphMode::training) context.targets = b_.input("targets", {"batch", "seq"});
      const Value y = models::mix_experts(b_, x, prefix_ + "mlp.", settings_.experts, context);
      return b_.dropout(y, settings_.residual_dropout, prefix_ + "mlp.dropout");
    }
    const Value y = models::feed_forward(
        b_, x, prefix_,
        {.names = {.gate = "mlp.gate_proj", .up = "mlp.up_proj", .activation = "mlp.gate", .down = "mlp.down_proj"},
         .activation = settings_.activation,
         .bias = settings_.mlp_bias,
         .output_deviation = deviation});
    return b_.dropout(y, settings_.residual_dropout, prefix_ + "mlp.dropout");
  }

  GraphBuilder& b_;
  const Settings& settings_;
  models::Norm norm_;
  const Positions& positions_;
  std::optional<Value> documents_;
  std::int64_t layer_;
  std::string prefix_;
};

/// The Llama family: blocks with root-mean-square norms, rotary positions, grouped queries and a gated feed-forward
/// block (Touvron et al., "LLaMA", 2023). The options cover the model types of model_type.cpp.
class Llama final : public Model {
 public:
  explicit Llama(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override;
  void build(GraphBuilder& builder) const override;
  [[nodiscard]] std::optional<Generation> generation() const override {
    return Generation{.positions = "positions", .documents = settings_.documents ? "documents" : ""};
  }

 private:
  void define_dims(GraphBuilder& builder) const;
  [[nodiscard]] Positions positions(GraphBuilder& builder) const;
  void add_head(GraphBuilder& builder, Value x, Value table) const;

  Settings settings_;
};

DimSizes Llama::sizes() const {
  DimSizes sizes{{"seq", settings_.context}};
  if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
  return sizes;
}

void Llama::define_dims(GraphBuilder& b) const {
  b.define_dim("pos", settings_.context);
  b.define_dim("embed", settings_.embed);
  b.define_dim("head_dim", settings_.head_dim);
  b.define_dim("ffn", settings_.ffn);
  models::define_expert_dims(b, settings_.experts);
  if (settings_.kv_heads == settings_.heads) {
    b.define_dim("heads", settings_.heads);
  } else {
    b.define_dim("kv_heads", settings_.kv_heads);
    b.define_dim("group", settings_.heads / settings_.kv_heads);
  }
}

Positions Llama::positions(GraphBuilder& b) const {
  const Value positions = b.input("positions", settings_.documents ? Dims{"batch", "seq"} : Dims{"seq"});
  Positions found{models::rope_tables(b, settings_.rope, "pos", positions), {}};
  if (settings_.window > 0 && settings_.local_rope_base > 0) {
    found.in_window = models::rope_tables(b, {.base = settings_.local_rope_base, .fraction = settings_.rope.fraction},
                                          "pos", positions, "local_rope");
  }
  return found;
}

/// x times a constant.
Value scaled(GraphBuilder& b, Value x, double factor, const std::string& name) {
  return factor == 1 ? x : b.op("weighted_sum", {x}, name, {{"factor0", factor}})[0];
}

void Llama::build(GraphBuilder& b) const {
  define_dims(b);
  b.begin_block(0);
  const Value table = b.parameter("model.embed_tokens.weight", {"vocab", "embed"},
                                  Initialization::normal(models::kInitialDeviation), true);
  Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "model.embed_tokens");
  const double root = settings_.scaled_embedding ? std::sqrt(static_cast<double>(settings_.embed)) : 1;
  x = scaled(b, x, root * settings_.embedding_multiplier, "model.embed_tokens.scaled");
  std::optional<Value> documents;
  if (settings_.documents) documents = b.input("documents", {"batch", "seq"});
  const Positions tables = positions(b);

  for (std::int64_t layer = 0; layer < settings_.layers; ++layer) {
    b.begin_block(static_cast<int>(layer) + 1);
    x = LayerBuilder(b, settings_, tables, documents, layer).build(x);
  }
  b.begin_block(static_cast<int>(settings_.layers) + 1);
  add_head(b, x, table);
}

void Llama::add_head(GraphBuilder& b, Value x, Value table) const {
  x = models::normalize(b, x, {"embed"}, "model.norm", LayerBuilder::norm_of(settings_));
  // Before the projection, because it is narrower than the logits.
  x = scaled(b, x, 1 / settings_.logits_scaling, "model.norm.scaled");
  Value head = table;
  if (!settings_.tied) {
    head = b.parameter("lm_head.weight", {"vocab", "embed"}, Initialization::normal(models::kInitialDeviation), true);
  }
  Value logits = b.linear(x, head, {"batch", "seq", "vocab"}, "lm_head");
  if (settings_.logit_cap > 0) {
    logits = b.op("soft_cap", {logits}, "lm_head.capped", {{"cap", settings_.logit_cap}})[0];
  }
  b.output("logits", logits);
  b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
}

/// Options of a smaller model of the same kind.
class SmallOptions {
 public:
  SmallOptions(const Settings& full, const ShrinkRequest& request) : full_(full), sizes_(request) {}

  Options of(const Options& options) const {
    const bool grouped = full_.kv_heads != full_.heads;
    const std::int64_t kv_heads = sizes_.several(grouped ? "kv_heads" : "heads");
    const std::int64_t heads = grouped ? kv_heads * sizes_.several("group") : kv_heads;
    Options small = options;
    small.set("size", OptionValue(std::string("custom")));
    small.set("layers", OptionValue(sizes_.blocks(full_.layers)));
    small.set("heads", OptionValue(heads));
    small.set("kv_heads", OptionValue(kv_heads));
    // Two pairs a head, because with one pair all angles of a position are equal.
    const bool is_partial = full_.rope.fraction < 1;
    const std::int64_t head_dim = std::lcm(sizes_.multiple("head_dim"), std::int64_t{is_partial ? 8 : 4});
    small.set("head_dim", OptionValue(head_dim));
    small.set("embed", OptionValue(std::lcm(sizes_.multiple("embed"), std::int64_t{8})));
    small.set("ffn", OptionValue(std::lcm(sizes_.multiple("ffn"), std::int64_t{6})));
    const std::int64_t context = std::lcm(std::lcm(sizes_.multiple("seq"), sizes_.multiple("pos")), std::int64_t{8});
    small.set("context", OptionValue(context));
    small.set("vocab", OptionValue(std::lcm(sizes_.multiple("vocab"), std::int64_t{16})));
    keep_kind(full_, small);
    const std::int64_t pairs = head_dim / (is_partial ? 4 : 2);
    small.set("rope_fraction", OptionValue(is_partial ? 0.5 : 1.0));
    if (full_.rope.scaling.kind == models::RopeScaling::Kind::longrope) keep_longrope(context, pairs, small);
    if (full_.kind() == Kind::mixture) keep_experts(small);
    return small;
  }

 private:
  void keep_experts(Options& small) const {
    // So many that some are not chosen, and at least as many as are chosen.
    const std::int64_t choices = std::min<std::int64_t>(full_.experts.choices, 2);
    const std::int64_t fewest = std::min(full_.experts.count, choices + 1);
    const std::int64_t multiple = sizes_.multiple("expert");
    small.set("experts", OptionValue((fewest + multiple - 1) / multiple * multiple));
    small.set("choices", OptionValue(choices));
    small.set("normalize", OptionValue(word_of(full_.experts.normalize)));
    if (full_.experts.shared_width > 0) {
      small.set("shared_ffn", OptionValue(std::lcm(sizes_.multiple("shared_ffn"), std::int64_t{4})));
    }
  }

  void keep_longrope(std::int64_t context, std::int64_t pairs, Options& small) const {
    // The small context is longer than the original one if the full context is.
    const models::RopeScaling& scaling = full_.rope.scaling;
    const double share = static_cast<double>(context) / static_cast<double>(full_.context);
    small.set("rope_original_context", OptionValue(std::max(2.0, scaling.original_context * share)));
    for (const auto& [name, factors] : {std::pair{"rope_short_factors", scaling.short_factors},
                                        std::pair{"rope_long_factors", scaling.long_factors}}) {
      std::vector<double> kept = factors;
      kept.resize(static_cast<std::size_t>(pairs), factors.back());
      small.set(name, OptionValue(kept));
    }
  }

  /// Sets what a published size implies and a custom one does not.
  static void keep_kind(const Settings& full, Options& small) {
    small.set("norm_epsilon", OptionValue(full.norm_epsilon));
    small.set("rope_base", OptionValue(full.rope.base));
    small.set("rope_factor", OptionValue(full.rope.scaling.factor));
    small.set("rope_original_context", OptionValue(full.rope.scaling.original_context));
    small.set("rope_scaling", OptionValue(word_of(full.rope.scaling.kind)));
    small.set("tied", OptionValue(word_of(full.tied)));
    small.set("qkv_bias", OptionValue(word_of(full.qkv_bias)));
    small.set("output_bias", OptionValue(word_of(full.output_bias)));
    if (full.kind() == Kind::dense) small.set("mlp_bias", OptionValue(word_of(full.mlp_bias)));
    small.set("qk_norm", OptionValue(word_of(full.qk_norm)));
    small.set("norm_plus_one", OptionValue(word_of(full.norm_plus_one)));
    small.set("norm_place", OptionValue(word_of(full.norm_place)));
    small.set("activation", OptionValue(full.activation));
    keep_numbers(full, small);
    // A window that still hides tokens of the short context, and a block with it. Of two blocks, one is different.
    small.set("window", OptionValue(std::min<std::int64_t>(full.window, 3)));
    small.set("window_layers", OptionValue(std::min<std::int64_t>(full.window_layers, 1)));
    small.set("global_every", OptionValue(std::min<std::int64_t>(full.global_every, 2)));
    small.set("no_rope_every", OptionValue(std::min<std::int64_t>(full.no_rope_every, 2)));
  }

  static void keep_numbers(const Settings& full, Options& small) {
    small.set("scaled_embedding", OptionValue(word_of(full.scaled_embedding)));
    for (const auto& [name, value] : {std::pair{"embedding_multiplier", full.embedding_multiplier},
                                      {"residual_multiplier", full.residual_multiplier},
                                      {"attention_multiplier", full.attention_multiplier},
                                      {"logits_scaling", full.logits_scaling},
                                      {"attention_cap", full.attention_cap},
                                      {"logit_cap", full.logit_cap},
                                      {"local_rope_base", full.local_rope_base}}) {
      small.set(name, OptionValue(value));
    }
  }

  const Settings& full_;
  models::SmallSizes sizes_;
};

}  // namespace

std::unique_ptr<Model> FamilyFactory::create(const Options& options) const { return std::make_unique<Llama>(options); }

Options FamilyFactory::shrink(const Options& options, const ShrinkRequest& request) const {
  return SmallOptions(settings_from(options), request).of(options);
}

}  // namespace llama
