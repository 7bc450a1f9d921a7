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

/// x times a constant.
Value scaled(GraphBuilder& b, Value x, double factor, const std::string& name) {
  return factor == 1 ? x : b.op("weighted_sum", {x}, name, {{"factor0", factor}})[0];
}

/// The Llama family: blocks with root-mean-square norms, rotary positions, grouped queries and a gated feed-forward
/// block (Touvron et al., "LLaMA", 2023). The options cover the model types of model_type.cpp.
class Llama final : public Model {
 public:
  explicit Llama(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override {
    DimSizes sizes{{"seq", settings_.context}};
    if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
    return sizes;
  }
  void build(GraphBuilder& b) const override {
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
  [[nodiscard]] std::optional<Generation> generation() const override {
    return Generation{.positions = "positions", .documents = settings_.documents ? "documents" : ""};
  }

 private:
  void define_dims(GraphBuilder& b) const {
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
  [[nodiscard]] Positions positions(GraphBuilder& b) const {
    const Value positions = b.input("positions", settings_.documents ? Dims{"batch", "seq"} : Dims{"seq"});
    Positions found{models::rope_tables(b, settings_.rope, "pos", positions), {}};
    if (settings_.window > 0 && settings_.local_rope_base > 0) {
      found.in_window = models::rope_tables(b, {.base = settings_.local_rope_base, .fraction = settings_.rope.fraction},
                                            "pos", positions, "local_rope");
    }
    return found;
  }
  void add_head(GraphBuilder& b, Value x, Value table) const {
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

  Settings settings_;
};

/// Options of a smaller model of the same kind.
class SmallLlama {
 public:
  SmallLlama(const Options& options, const ShrinkRequest& request)
      : full_(settings_from(options)), small_(options, request) {}

  Options options() {
    const bool grouped = full_.kv_heads != full_.heads;
    const std::int64_t kv_heads = small_.several(grouped ? "kv_heads" : "heads");
    const std::int64_t heads = grouped ? kv_heads * small_.several("group") : kv_heads;
    small_.set("layers", small_.blocks(full_.layers));
    small_.set("heads", heads);
    small_.set("kv_heads", kv_heads);
    // Two pairs a head, because with one pair all angles of a position are equal.
    const bool is_partial = full_.rope.fraction < 1;
    const std::int64_t head_dim = small_.multiple({"head_dim"}, is_partial ? 8 : 4);
    small_.set("head_dim", head_dim);
    small_.set("embed", small_.multiple({"embed"}, 8));
    small_.set("ffn", small_.multiple({"ffn"}, 6));
    const std::int64_t context = small_.multiple({"seq", "pos"}, 8);
    small_.set("context", context);
    small_.set("vocab", small_.multiple({"vocab"}, 16));
    keep_kind();
    const std::int64_t pairs = head_dim / (is_partial ? 4 : 2);
    small_.set("rope_fraction", is_partial ? 0.5 : 1.0);
    if (full_.rope.scaling.kind == models::RopeScaling::Kind::longrope) keep_longrope(context, pairs);
    if (full_.kind() == Kind::mixture) keep_experts();
    return small_.options();
  }

 private:
  void keep_experts() {
    // So many that some are not chosen, and at least as many as are chosen.
    const std::int64_t choices = std::min<std::int64_t>(full_.experts.choices, 2);
    const std::int64_t fewest = std::min(full_.experts.count, choices + 1);
    const std::int64_t multiple = small_.multiple({"expert"});
    small_.set("experts", (fewest + multiple - 1) / multiple * multiple);
    small_.set("choices", choices);
    small_.set("normalize", word_of(full_.experts.normalize));
    if (full_.experts.shared_width > 0) {
      small_.set("shared_ffn", small_.multiple({"shared_ffn"}, 4));
    }
  }

  void keep_longrope(std::int64_t context, std::int64_t pairs) {
    // The small context is longer than the original one if the full context is.
    const models::RopeScaling& scaling = full_.rope.scaling;
    const double share = static_cast<double>(context) / static_cast<double>(full_.context);
    small_.set("rope_original_context", std::max(2.0, scaling.original_context * share));
    for (const auto& [name, factors] : {std::pair{"rope_short_factors", scaling.short_factors},
                                        std::pair{"rope_long_factors", scaling.long_factors}}) {
      std::vector<double> kept = factors;
      kept.resize(static_cast<std::size_t>(pairs), factors.back());
      small_.set(name, kept);
    }
  }

  /// Sets what a published size implies and a custom one does not.
  void keep_kind() {
    small_.set("norm_epsilon", full_.norm_epsilon);
    small_.set("rope_base", full_.rope.base);
    small_.set("rope_factor", full_.rope.scaling.factor);
    small_.set("rope_original_context", full_.rope.scaling.original_context);
    small_.set("rope_scaling", word_of(full_.rope.scaling.kind));
    small_.set("tied", word_of(full_.tied));
    small_.set("qkv_bias", word_of(full_.qkv_bias));
    small_.set("output_bias", word_of(full_.output_bias));
    if (full_.kind() == Kind::dense) small_.set("mlp_bias", word_of(full_.mlp_bias));
    small_.set("qk_norm", word_of(full_.qk_norm));
    small_.set("norm_plus_one", word_of(full_.norm_plus_one));
    small_.set("norm_place", word_of(full_.norm_place));
    small_.set("activation", full_.activation);
    keep_numbers();
    // A window that still hides tokens of the short context, and a block with it. Of two blocks, one is different.
    small_.set("window", std::min<std::int64_t>(full_.window, 3));
    small_.set("window_layers", std::min<std::int64_t>(full_.window_layers, 1));
    small_.set("global_every", std::min<std::int64_t>(full_.global_every, 2));
    small_.set("no_rope_every", std::min<std::int64_t>(full_.no_rope_every, 2));
  }

  void keep_numbers() {
    small_.set("scaled_embedding", word_of(full_.scaled_embedding));
    for (const auto& [name, value] : {std::pair{"embedding_multiplier", full_.embedding_multiplier},
                                      {"residual_multiplier", full_.residual_multiplier},
                                      {"attention_multiplier", full_.attention_multiplier},
                                      {"logits_scaling", full_.logits_scaling},
                                      {"attention_cap", full_.attention_cap},
                                      {"logit_cap", full_.logit_cap},
                                      {"local_rope_base", full_.local_rope_base}}) {
      small_.set(name, value);
    }
  }

  Settings full_;
  models::SmallOptions small_;
};

}  // namespace

std::unique_ptr<Model> FamilyFactory::create(const Options& options) const { return std::make_unique<Llama>(options); }

Options FamilyFactory::shrink(const Options& options, const ShrinkRequest& request) const {
  return SmallLlama(options, request).options();
}

}  // namespace llama
