#include "t5.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/layers.hpp"
#include "common/options.hpp"
#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace t5 {
namespace {

using namespace strata;
using models::size_option;

/// The published sizes of T5 1.1, which Flan-T5 has as well. All have head_dim 64 and vocabulary 32128.
std::vector<models::NamedSize<Settings>> named_sizes() {
  return {{"t5-small", {.layers = 8, .heads = 6, .embed = 512, .ffn = 1024, .vocab = 32128}},
          {"t5-base", {.layers = 12, .heads = 12, .embed = 768, .ffn = 2048, .vocab = 32128}},
          {"t5-large", {.layers = 24, .heads = 16, .embed = 1024, .ffn = 2816, .vocab = 32128}},
          {"t5-xl", {.layers = 24, .heads = 32, .embed = 2048, .ffn = 5120, .vocab = 32128}},
          {"t5-xxl", {.layers = 24, .heads = 64, .embed = 4096, .ffn = 10240, .vocab = 32128}}};
}

OptionSchema option_schema() {
  return {
      models::named_size_option(
          named_sizes(),
          "A published size of T5 1.1, which gives layers, heads, head_dim (64), embed, ffn and vocab (32128); "
          "fields that are set override it."),
      size_option("layers", "Blocks of the encoder; 0: the size's, 8 for custom.", 4096),
      size_option("decoder_layers", "Blocks of the decoder; 0: as many as the encoder has.", 4096),
      size_option("heads", "Attention heads; 0: the size's, 6 for custom.", 4096),
      size_option("head_dim", "Width of a head; 0: 64.", 65536),
      size_option("embed", "Width of the residual stream; 0: the size's, 512 for custom.", 1048576),
      size_option("ffn", "Inner width of the feed-forward block; 0: the size's, 1024 for custom.", 4194304),
      size_option("context", "Tokens of the encoder; 0: 512.", 16777216),
      size_option("target_context", "Tokens of the decoder; 0: 128.", 16777216),
      size_option("vocab", "Rows of the embedding; 0: as many as the data has, or the size's.", 16777216),
      option::integer("buckets", 32, 4, 65536, "Rows of the table of the relative position bias; a multiple of 4."),
      option::integer("max_distance", 128, 2, 16777216, "Distance from which all distances share a bucket."),
      option::number(
          "dropout", 0.1, 0, 0.99,
          "Probability with which embeddings, branches, inner activations and attention weights are dropped."),
      option::number("norm_epsilon", 1e-6, 0, 1, "Added to the mean square in norms."),
      option::word("activation", "gelu_tanh", "The activation of the feed-forward block.",
                   {"gelu", "gelu_tanh", "relu", "silu"}),
      option::boolean("gated", true, "Multiplies the activation by a second projection, as T5 1.1 does."),
      option::boolean("tied", false, "The table of embeddings is the output projection as well, as in T5 1.0."),
      option::word("scaled", "auto",
                   "Divides the input of the output projection by √embed; auto: if it is tied, as T5 1.0 does.",
                   {"auto", "yes", "no"}),
      option::integer("start_token", 0, 0, 2147483647,
                      "The token before every answer, which is the padding too, if the data does not say it."),
      option::integer("end_token", 1, 0, 2147483647, "The token that ends both texts, if the data does not say it.")};
}

}  // namespace

Settings settings_from(const Options& options) {
  Settings settings = models::settings_of_size(named_sizes(), options);
  const models::Overrides overrides(options);
  overrides.integer("layers", settings.layers);
  settings.decoder_layers = settings.layers;
  overrides.integer("decoder_layers", settings.decoder_layers);
  overrides.integer("heads", settings.heads);
  overrides.integer("head_dim", settings.head_dim);
  overrides.integer("embed", settings.embed);
  overrides.integer("ffn", settings.ffn);
  overrides.integer("context", settings.context);
  overrides.integer("target_context", settings.target_context);
  overrides.integer("vocab", settings.vocab);
  settings.buckets = options.integer("buckets");
  settings.max_distance = options.integer("max_distance");
  settings.dropout = options.number("dropout");
  settings.norm_epsilon = options.number("norm_epsilon");
  settings.activation = options.word("activation");
  settings.gated = options.boolean("gated");
  settings.tied = options.boolean("tied");
  settings.start_token = options.integer("start_token");
  settings.end_token = options.integer("end_token");
  for (const char* name : {"start_token", "end_token"}) {
    if (settings.vocab == 0 || options.integer(name) < settings.vocab) continue;
    throw OptionError(name, "found " + std::to_string(options.integer(name)) + "; accepted: 0 to " +
                                std::to_string(settings.vocab - 1) + ", which the vocabulary has");
  }
  settings.scaled = options.word("scaled") == "auto" ? settings.tied : options.word("scaled") == "yes";
  if (settings.buckets % 4 != 0) {
    throw OptionError("buckets", "found " + std::to_string(settings.buckets) + "; accepted: a multiple of 4");
  }
  if (settings.max_distance <= settings.buckets / 2) {
    throw OptionError("max_distance", "found " + std::to_string(settings.max_distance) + "; accepted: above " +
                                          std::to_string(settings.buckets / 2) + ", half of the buckets");
  }
  return settings;
}

namespace {

double deviation_of(std::int64_t fan_in) { return 1 / std::sqrt(static_cast<double>(fan_in)); }

/// The buckets of distances between a key and its query: half of them hold one distance each, the others ranges that
/// grow by the same factor up to `max_distance` (Raffel et al., "Exploring the Limits of Transfer Learning with a
/// Unified Text-to-Text Transformer", 2019).
struct Buckets {
  std::int64_t count = 32;
  std::int64_t max_distance = 128;
  /// True if keys after the query have buckets of their own. If not, they share that of distance 0.
  bool both_directions = true;

  /// The bucket of a key `distance` positions after its query.
  [[nodiscard]] std::int64_t of(std::int64_t distance) const {
    const std::int64_t of_direction = both_directions ? count / 2 : count;
    const std::int64_t first = both_directions && distance > 0 ? of_direction : 0;
    const std::int64_t size = both_directions ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
    const std::int64_t exact = of_direction / 2;
    if (size < exact) return first + size;
    // In f32, as in other implementations, because a number next to a bound would otherwise have another bucket.
    const float ratio = std::log(static_cast<float>(size) / static_cast<float>(exact)) /
                        static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
    const auto large = exact + static_cast<std::int64_t>(ratio * static_cast<float>(of_direction - exact));
    return first + std::min(large, of_direction - 1);
  }
};

/// A matrix [distance bucket] with a one in the bucket of each distance, from 1 - length on.
class ChosenBuckets final : public Initializer {
 public:
  explicit ChosenBuckets(const Buckets& buckets) : buckets_(buckets) {}

  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& shape,
                             std::uint64_t /*key*/) const override {
    return buckets_.of(index[0] - shape[0] / 2) == index[1] ? 1 : 0;
  }

 private:
  Buckets buckets_;
};

/// The bias of attention within a sequence of `length` tokens, [heads distance]. The parameter NAME.weight [bucket
/// heads] is the table. Defines the dimension `distance`.
Value relative_bias(GraphBuilder& b, const Buckets& buckets, std::int64_t length, const Dim& distance,
                    const std::string& name) {
  b.derive_dim(distance, 2 * length - 1, "the tokens of the sequence");
  const double deviation = 1 / std::sqrt(static_cast<double>(*b.find_size("embed")));
  const Value table = b.parameter(name + ".weight", {"bucket", "heads"}, Initialization::normal(deviation), true);
  const Value chosen = b.constant(name + ".buckets", {distance, "bucket"},
                                  Initialization::custom(std::make_shared<ChosenBuckets>(buckets)));
  return b.linear(table, chosen, {"heads", distance}, name);
}

/// Appends the blocks of the encoder or of the decoder. Parameter names are those of the Hugging Face checkpoints.
class StackBuilder {
 public:
  /// A sequence: a stream of embeddings, and the mask of its padding.
  struct Sequence {
    Dim positions;
    Value mask;
    Value stream = {};
  };

  /// `encoded`: the encoder's output for the decoder, or null for the encoder.
  StackBuilder(GraphBuilder& builder, const Settings& settings, std::string name, Sequence sequence,
               const Sequence* encoded)
      : b_(builder),
        settings_(settings),
        name_(std::move(name)),
        sequence_(std::move(sequence)),
        encoded_(encoded),
        stream_dims_{"batch", sequence_.positions, "embed"} {}

  /// The first block, which makes the bias that all others use. `block`: its number.
  void begin(int block, Value table, const std::string& tokens) {
    b_.begin_block(block);
    block_ = block;
    const Value ids = b_.input(tokens, {"batch", sequence_.positions});
    sequence_.stream = b_.dropout(b_.embedding(table, ids, name_ + ".embed_tokens"), settings_.dropout,
                                  name_ + ".embed_tokens.dropout");
    const Buckets buckets{settings_.buckets, settings_.max_distance, encoded_ == nullptr};
    const std::int64_t length = encoded_ == nullptr ? settings_.context : settings_.target_context;
    bias_ = relative_bias(b_, buckets, length, encoded_ == nullptr ? "distance" : "target_distance",
                          name_ + ".block.0.layer.0.SelfAttention.relative_attention_bias");
  }

  void add_blocks(std::int64_t count) {
    for (std::int64_t layer = 0; layer < count; ++layer) {
      b_.begin_block(++block_);
      const std::string prefix = name_ + ".block." + std::to_string(layer) + ".layer.";
      int part = 0;
      const auto next = [&] { return prefix + std::to_string(part++) + "."; };
      attend(next(), "SelfAttention", sequence_);
      if (encoded_ != nullptr) attend(next(), "EncDecAttention", *encoded_);
      feed_forward(next());
    }
  }

  /// The last norm, in a block of its own if `begins_block`.
  Sequence finish() {
    sequence_.stream = b_.dropout(norm(name_ + ".final_layer_norm"), settings_.dropout, name_ + ".dropout");
    return sequence_;
  }

  [[nodiscard]] int block() const { return block_; }

 private:
  Value norm(const std::string& name) {
    return models::normalize(b_, sequence_.stream, {"embed"}, name,
                             {.kind = models::Norm::Kind::root_mean_square, .epsilon = settings_.norm_epsilon});
  }

  void add_branch(Value branch, const std::string& name) {
    sequence_.stream =
        b_.add(sequence_.stream, b_.dropout(branch, settings_.dropout, name + "dropout"), name + "residual");
  }

  /// Attention to `source`. Scores have no scale.
  void attend(const std::string& layer, const std::string& name, const Sequence& source) {
    const bool is_self = &source == &sequence_;
    const std::string prefix = layer + name;
    const Value x = norm(layer + "layer_norm");
    const auto project = [&](Value from, const Dim& positions, const char* which, double deviation) {
      return models::affine(b_, from, prefix + "." + which,
                            {.weight = {"embed", "heads", "head_dim"},
                             .result = {"batch", positions, "heads", "head_dim"},
                             .deviation = deviation});
    };
    const double deviation = deviation_of(settings_.embed);
    const Value from = is_self ? x : source.stream;
    const Value q = project(x, sequence_.positions, "q", deviation * deviation_of(settings_.head_dim));
    const Value k = project(from, source.positions, "k", deviation);
    const Value v = project(from, source.positions, "v", deviation);
    AttentionOptions options{.causal = is_self && encoded_ != nullptr, .dropout = settings_.dropout, .scale = 1.0};
    if (is_self) options.bias = bias_;
    // The padding of the decoder follows its tokens, so the causal mask hides it from them.
    if (!options.causal) {
      options.documents = sequence_.mask;
      options.key_documents = source.mask;
    }
    const Value mixed = b_.attention(q, k, v, options, prefix);
    add_branch(models::affine(b_, mixed, prefix + ".o",
                              {.weight = {"heads", "head_dim", "embed"},
                               .result = stream_dims_,
                               .deviation = deviation_of(settings_.heads * settings_.head_dim)}),
               layer);
  }

  void feed_forward(const std::string& layer) {
    const std::string prefix = layer + "DenseReluDense.";
    const Value x = norm(layer + "layer_norm");
    const auto widen = [&](const char* which) {
      return models::affine(b_, x, prefix + which,
                            {.weight = {"embed", "ffn"},
                             .result = {"batch", sequence_.positions, "ffn"},
                             .deviation = deviation_of(settings_.embed)});
    };
    Value inner;
    if (settings_.gated) {
      const Value gate = widen("wi_0");
      inner = b_.op("gated_activation", {gate, widen("wi_1")}, prefix + "act", {{"kind", settings_.activation}})[0];
    } else {
      inner = b_.activation(widen("wi"), settings_.activation, prefix + "act");
    }
    inner = b_.dropout(inner, settings_.dropout, prefix + "dropout");
    add_branch(
        models::affine(b_, inner, prefix + "wo",
                       {.weight = {"ffn", "embed"}, .result = stream_dims_, .deviation = deviation_of(settings_.ffn)}),
        layer);
  }

  GraphBuilder& b_;
  const Settings& settings_;
  std::string name_;
  Sequence sequence_;
  const Sequence* encoded_;
  Dims stream_dims_;
  Value bias_;
  int block_ = 0;
};

/// T5 (Raffel et al., 2019) and T5 1.1 (Shazeer, "GLU Variants Improve Transformer", 2020): an encoder that sees its
/// sequence in both directions, and a decoder that sees its own tokens so far and all of the encoder's. Positions are a
/// bias by distance, which all layers of a stack share.
class T5 final : public Model {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit T5(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override {
    DimSizes sizes{{"seq", settings_.context}, {"target_seq", settings_.target_context}};
    if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
    return sizes;
  }

  void build(GraphBuilder& b) const override {
    b.define_dim("embed", settings_.embed);
    b.define_dim("heads", settings_.heads);
    b.define_dim("head_dim", settings_.head_dim);
    b.define_dim("ffn", settings_.ffn);
    b.define_dim("bucket", settings_.buckets);

    const Value table = b.parameter("shared.weight", {"vocab", "embed"}, Initialization::normal(1), true);
    StackBuilder encoder(b, settings_, "encoder", {"seq", b.input("mask", {"batch", "seq"})}, nullptr);
    encoder.begin(0, table, "tokens");
    encoder.add_blocks(settings_.layers);
    const StackBuilder::Sequence encoded = encoder.finish();

    StackBuilder decoder(b, settings_, "decoder", {"target_seq", b.input("target_mask", {"batch", "target_seq"})},
                         &encoded);
    decoder.begin(encoder.block() + 1, table, "target_tokens");
    decoder.add_blocks(settings_.decoder_layers);
    b.begin_block(decoder.block() + 1);
    Value x = decoder.finish().stream;
    Value head = table;
    if (settings_.scaled) {
      const Value factor = b.constant("lm_head.factor", {}, Initialization::constant(deviation_of(settings_.embed)));
      x = b.multiply(x, factor, "lm_head.scaled");
    }
    if (!settings_.tied) {
      head = b.parameter("lm_head.weight", {"vocab", "embed"}, Initialization::normal(deviation_of(settings_.embed)),
                         true);
    }
    const Value logits = b.linear(x, head, {"batch", "target_seq", "vocab"}, "lm_head");
    b.output("logits", logits);
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "target_seq"}), "loss");
  }

  [[nodiscard]] std::optional<Generation> generation() const override {
    return Generation{.input = "target_tokens",
                      .mask = "target_mask",
                      .sequence = "target_seq",
                      .source = GenerationSource{.start = static_cast<std::int32_t>(settings_.start_token),
                                                 .end = static_cast<std::int32_t>(settings_.end_token)}};
  }

  static Options shrink(const Options& options, const ShrinkRequest& request) {
    const Settings full = settings_from(options);
    models::SmallOptions small(options, request);
    small.set("layers", small.blocks(full.layers));
    small.set("decoder_layers", small.blocks(full.decoder_layers));
    small.set("heads", small.several("heads"));
    small.set("head_dim", small.several("head_dim"));
    small.set("embed", small.multiple({"embed"}, 8));
    small.set("ffn", small.multiple({"ffn"}, 6));
    small.set("context", small.multiple({"seq"}, 8));
    small.set("target_context", small.multiple({"target_seq"}, 6));
    small.set("vocab", small.multiple({"vocab"}, 16));
    small.set("start_token", std::int64_t{0});
    small.set("end_token", std::int64_t{1});
    // Few, so that the short sequences have distances of each kind of bucket.
    const std::int64_t buckets = small.multiple({"bucket"}, 8);
    small.set("buckets", buckets);
    small.set("max_distance", buckets);
    return small.options();
  }

 private:
  Settings settings_;
};

using Factory = models::FactoryWithFormat<T5, T5Format>;

}  // namespace
}  // namespace t5

STRATA_PLUGIN(model, "t5", "0.1.0", "Apache-2.0",
              "T5 (T5 1.0 and 1.1, Flan-T5), by name of size or by fields: an encoder and a decoder.", t5::Factory);
