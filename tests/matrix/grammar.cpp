#include "matrix/grammar.hpp"

#include <algorithm>
#include <stdexcept>

#include "matrix/model_options.hpp"
#include "matrix/models.hpp"
#include "matrix/stack.hpp"

namespace strata::testing {
namespace {

OptionRow values(const std::string& name, const std::vector<std::string>& values) {
  OptionRow row{name, {}};
  for (const std::string& value : values) row.choices.push_back({value});
  return row;
}

OptionRow words(const std::string& name, std::vector<std::string> words) {
  for (std::string& word : words) word = "\"" + word + "\"";
  return values(name, words);
}

OptionRow flag(const std::string& name) { return values(name, {"false", "true"}); }

/// The option `size` with up to `largest` ranks. In pairs, sizes up to `most` represent all sizes.
OptionRow size(int most = 3, int largest = kMostRanks) {
  OptionRow row{"size", {}};
  for (int ranks = 1; ranks <= largest; ++ranks) {
    row.choices.push_back({.toml = std::to_string(ranks), .ranks = ranks, .rare = ranks > most});
  }
  return row;
}

OptionRow written(OptionRow row, std::string (*write)(const Stack& stack, const std::string& toml)) {
  for (OptionChoice& each : row.choices) each.write_for_run = write;
  return row;
}

/// Groups of the optimizer, by the names of gpt2.
OptionRow optimizer_groups() {
  return written(
      values("optimizer.group", {"[]", "[{parameters=[\"*.bias\", \"wpe.*\"], lr_factor=0.5, weight_decay_factor=2.0}]",
                                 "[{parameters=[\"*.bias\"], frozen=true}, "
                                 "{parameters=[\"h.*.weight\"], plugin=\"lion\", lr_factor=0.1}]",
                                 "[{parameters=[\"h.*.attn.*.weight\", \"h.*.mlp.*.weight\"], plugin=\"muon\"}]",
                                 "[{parameters=[\"h.*.attn.*.weight\"], plugin=\"muon\", scale=\"spectral\", "
                                 "nesterov=false, split=[\"heads\"], lr_factor=0.5}]",
                                 "[{parameters=[\"h.*.attn.*.weight\", \"h.*.mlp.*.weight\"], plugin=\"shampoo\", "
                                 "period=2}]",
                                 "[{parameters=[\"h.*.attn.*.weight\"], plugin=\"shampoo\", split=[\"heads\"]}]",
                                 "[{parameters=[\"h.*.attn.*.weight\", \"h.*.mlp.*.weight\"], plugin=\"soap\", "
                                 "period=2, epsilon=1e-3}]",
                                 "[{parameters=[\"h.*.attn.*.weight\"], plugin=\"soap\", split=[\"heads\"], "
                                 "epsilon=1e-3}]"}),
      groups_of_model);
}

std::vector<OptionRow> run_options() {
  OptionRow layers = values("model.layers", {"1", "2", "4", "6"});
  for (const char* rare : {"10", "14"}) layers.choices.push_back({.toml = rare, .rare = true});
  return {written(std::move(layers), layers_of_model),
          {"model.plugin", models()},
          written(values("model.attention_dropout", {"0.0", "0.2"}), attention_dropout_of_model),
          written(values("model.window", {"0", "3", "6"}), of_decoders),
          written(flag("model.documents"), of_decoders),
          values("batch.micro", {"1", "2"}),
          values("batch.micro_batches", {"1", "2", "3", "4", "8"}),
          // Small buckets with one or two parameters, and one bucket for all.
          values("buckets.bucket_mb", {"0.002", "25"}),
          flag("buckets.overlap"),
          // An optimizer together with its options. A rate of 1e-2 would let Lion, whose steps are signs, amplify the
          // rounding of quantised gradients in 16-bit types. The usual epsilon of Adafactor, 1e-30, would let it
          // amplify the rounding of gradients that are zero, such as those of adapters.
          {"optimizer.plugin",
           {{"\"adamw\"\nlr = 1e-2"},
            {"\"sgd\"\nlr = 1e-2"},
            {"\"sgd\"\nlr = 1e-2\nmomentum = 0.9"},
            {"\"sgd\"\nlr = 1e-2\nmomentum = 0.9\nnesterov = true"},
            {"\"lion\"\nlr = 1e-3"},
            {"\"adafactor\"\nlr = 1e-2\nepsilon = 1e-12"}}},
          values("optimizer.clip", {"0.0", "0.5"}),
          values("optimizer.clip_value", {"0.0", "0.001"}),
          values("optimizer.average", {"{}", "{decay=0.7}"}),
          optimizer_groups()};
}

OptionRow replicate(const std::string& axis) {
  return {"replicate", {{"[]"}, {.toml = "[\"" + axis + "=2\"]", .ranks = 2}}};
}

StrategyRow zero() {
  return {.name = "zero",
          .plugin = "zero",
          .fixed = "axis = \"zero\"\n",
          .splits_batch = true,
          .has_buckets = true,
          .divides = {},
          .options = {size(4),  // two nodes of two
                      values("stage", {"1", "2", "3"}),
                      values("prefetch", {"0", "1", "2"}),
                      flag("reshard_after_forward"),
                      values("hierarchical_partition", {"1", "2"}),
                      {"replicate", {{"1"}, {.toml = "2", .ranks = 2}}},
                      {"also_over", {{"[]"}, {.toml = "[\"cp\"]", .needs = "context"}}},
                      words("offload_optimizer", {"none", "host", "file"}),
                      words("offload_param", {"none", "host", "file"}),
                      flag("quantized_weights"),
                      flag("quantized_gradients"),
                      // "always" changes results in f64 too.
                      words("quantization", {"on", "off"})},
          .percent = 45};
}

StrategyRow tensor(const std::string& name, const std::string& axis, std::vector<OptionRow> options, int percent) {
  return {.name = name,
          .plugin = "tensor",
          .fixed = "axis = \"" + axis + "\"\n",
          .splits_batch = false,
          .divides = {{"heads"}, {"context"}},
          .options = std::move(options),
          .percent = percent};
}

StrategyRow context(const std::string& name, const std::string& axis, std::vector<OptionRow> options, int percent) {
  return {.name = name,
          .plugin = "context",
          .fixed = "axis = \"" + axis + "\"\n",
          .splits_batch = false,
          .divides = {{"context", 2}},
          .options = std::move(options),
          .percent = percent};
}

OptionRow attention() { return words("attention", {"ring", "all_gather", "ulysses"}); }

/// A split in which the last chunk has all blocks, except one for each other chunk.
std::string uneven_split(const Stack& stack, const StrategyChoice& strategy) {
  const int chunks_of_stage =
      strategy.option("schedule") == "\"zbv\"" ? 2 : std::stoi(strategy.option("virtual_stages"));
  const int chunks = std::stoi(strategy.option("size")) * chunks_of_stage;
  std::string split;
  for (int chunk = 1; chunk < chunks; ++chunk) split += "1,";
  return "\"" + split + std::to_string(std::max(blocks_of_model(stack) - chunks + 1, 1)) + "\"";
}

StrategyRow pipeline() {
  return {.name = "pipeline",
          .plugin = "pipeline",
          .fixed = "axis = \"pp\"\n",
          .splits_batch = false,
          .divides = {},
          .options = {size(),
                      words("schedule", {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zbv"}),
                      values("virtual_stages", {"1", "2", "3"}),
                      {"split", {{"\"cost\""}, {"\"even\""}, {.toml = "uneven", .write = uneven_split}}}},
          .percent = 45};
}

StrategyRow lora() {
  return {.name = "lora",
          .plugin = "lora",
          .fixed = "",
          .splits_batch = false,
          .divides = {},
          // A rank together with other options. A large alpha would let adaptive optimizers amplify rounding.
          .options = {{"rank",
                       {{"1\nalpha = 0.5\ninit = \"normal\""},
                        {"3\nalpha = 3.0\ndropout = 0.2"},
                        {.toml = "2\npatterns", .write = lora_of_model}}},
                      {"base", {{"\"full\""}, {"\"nf4\""}, {"\"int8\"\nbase_block = 3"}}}},
          .percent = 25};
}

OptionRow loss_scale() {
  OptionRow row = words("loss_scale", {"auto", "off", "static", "dynamic"});
  for (OptionChoice& each : row.choices) each.write = loss_scale_of_model;
  return row;
}

/// Names in the rules for a model.
struct RuleNames {
  /// The first layer.
  std::string layer;
  std::string tokens = "seq";
  /// The dimensions between two products of a layer.
  std::string inner = "ffn";
  /// The dimensions between layers.
  std::string outer = "embed";
  std::string classes = "vocab";
};

RuleNames rule_names(const Stack& stack) {
  // Channels stand for tokens, which a ResNet lacks.
  if (has_model(stack, "resnet")) return {"layer1.0", "outer1", "inner1", "outer1", "classes"};
  if (has_model(stack, "vit")) return {.layer = "encoder.layers.encoder_layer_0", .classes = "classes"};
  if (has_model(stack, "gpt2")) return {.layer = "h.0"};
  if (has_model(stack, "bert")) return {.layer = "bert.encoder.layer.0"};
  if (has_model(stack, "t5")) return {.layer = "encoder.block.0"};
  return {.layer = "model.layers.0"};
}

/// Rules for the first layer of the stack's model, and for all else.
std::string rules_of_model(const Stack& stack, const std::string& first, const std::string& others) {
  return "[\"" + rule_names(stack).layer + ": " + first + "\", \"*: " + others + "\"]";
}

/// The samples of a micro-batch, if the ranks of the strategy divide them, else tokens.
std::string samples_or_tokens(const Stack& stack, const StrategyChoice& strategy) {
  const int samples = stack.global_batch() / std::stoi(stack.run_option("batch.micro_batches"));
  return samples % strategy.ranks() == 0 ? "batch" : rule_names(stack).tokens;
}

std::string weights_in_the_first_layer(const Stack& stack, const StrategyChoice& strategy) {
  return rules_of_model(stack, rule_names(stack).inner + ", " + rule_names(stack).tokens,
                        samples_or_tokens(stack, strategy));
}

std::string samples_in_the_first_layer(const Stack& stack, const StrategyChoice& strategy) {
  return rules_of_model(stack, samples_or_tokens(stack, strategy),
                        rule_names(stack).outer + ", " + rule_names(stack).classes);
}

std::string no_samples(const Stack& stack, const StrategyChoice& /*strategy*/) {
  return rules_of_model(stack, rule_names(stack).outer, rule_names(stack).tokens);
}

std::vector<StrategyRow> strategies() {
  return {{.name = "ddp",
           .plugin = "ddp",
           .fixed = "axis = \"dp\"\n",
           .splits_batch = true,
           .has_buckets = true,
           .divides = {},
           .options = {size(), replicate("node")},
           .percent = 35},
          {.name = "outer ddp",
           .plugin = "ddp",
           .fixed = "axis = \"outer\"\n",
           .splits_batch = true,
           .has_buckets = true,
           .divides = {},
           .options = {size(2), replicate("rack")},
           .percent = 8},
          {.name = "dataparallel",
           .plugin = "dataparallel",
           .fixed = "axis = \"writer\"\n",
           .splits_batch = true,
           .has_buckets = true,
           .divides = {},
           .options = {size()},
           .percent = 15},
          zero(),
          {.name = "localsgd",
           .plugin = "localsgd",
           .fixed = "axis = \"replica\"\n",
           .splits_batch = true,
           .divides = {},
           // The single rank computes the whole batch once for each replica.
           .options = {size(3, 4), values("steps", {"2", "1", "3", "4"}), values("outer_lr", {"0.7", "1.0"}),
                       values("outer_momentum", {"0.9", "0.0"}), flag("nesterov"), values("fragments", {"1", "2"}),
                       flag("overlap"), values("mixing", {"0.5", "0.0"}),
                       words("outer_gradients", {"f32", "int8", "int4"})},
           .percent = 25},
          // The small models have matrices of which only factors of rank 1 or 2 are smaller.
          {.name = "compress",
           .plugin = "compress",
           .fixed = "",
           .splits_batch = true,
           .divides = {},
           // A method together with its option.
           .options = {size(2, 4),
                       {"method",
                        {{"\"powersgd\"\nrank = 1"},
                         {"\"powersgd\"\nrank = 2"},
                         {"\"powersgd\"\nrank = 3"},
                         {"\"topk\"\ndensity = 0.1"},
                         {"\"topk\"\ndensity = 0.01"},
                         {"\"topk\"\ndensity = 0.3"}}},
                       values("smallest", {"0", "100"})},
           .percent = 25},
          tensor("tensor", "tp",
                 {size(), flag("sequence_parallel"), flag("vocab_parallel"), values("overlap_chunks", {"1", "2"})}, 45),
          tensor("second tensor", "tp2", {size(2)}, 6),
          {.name = "layout",
           .plugin = "layout",
           .fixed = "",
           .splits_batch = false,
           .divides = {{"heads"}, {"context"}},
           .options = {size(2, 4),
                       {"rules",
                        {{.toml = "weights", .write = weights_in_the_first_layer},
                         {.toml = "samples", .write = samples_in_the_first_layer},
                         {.toml = "tokens", .write = no_samples}}}},
           .percent = 20},
          // Its sizes divide the experts of all mixtures.
          {.name = "expert",
           .plugin = "expert",
           .fixed = "axis = \"ep\"\n",
           .splits_batch = true,
           .divides = {},
           .options = {size(3, 3), values("chunks", {"1", "2"})},
           .percent = 10},
          context("context", "cp", {size(), attention(), words("balance", {"auto", "zigzag", "none"})}, 45),
          context("second context", "cp2", {size(2), attention()}, 6),
          pipeline(),
          lora(),
          {.name = "recompute",
           .plugin = "recompute",
           .fixed = "",
           .splits_batch = false,
           .divides = {},
           .options = {words("policy", {"full", "every", "selective", "none"}), values("every", {"1", "2"}),
                       flag("last_block")},
           .percent = 40},
          // In f64 no type is shortened, but the loss is still scaled.
          {.name = "precision",
           .plugin = "precision",
           .fixed = "",
           .splits_batch = false,
           .divides = {},
           .options = {words("compute", {"bf16", "fp16", "f32"}), words("reduce", {"f32", "bf16"}), loss_scale()},
           .percent = 35}};
}

std::vector<Conflict> conflicts() {
  std::vector<Conflict> conflicts = {{"zero", "dataparallel"},
                                     {"zero.hierarchical_partition=2", "zero.stage=1"},
                                     {"zero.hierarchical_partition=2", "zero.stage=2"},
                                     {"zero.hierarchical_partition=2", "zero.size=1"},
                                     {"zero.hierarchical_partition=2", "zero.size=3"},
                                     {"zero.offload_param=\"host\"", "zero.stage=1"},
                                     {"zero.offload_param=\"host\"", "zero.stage=2"},
                                     {"zero.offload_param=\"file\"", "zero.stage=1"},
                                     {"zero.offload_param=\"file\"", "zero.stage=2"},
                                     {"zero.quantized_weights=true", "zero.stage=1"},
                                     {"zero.quantized_weights=true", "zero.stage=2"},
                                     {"pipeline.schedule=\"zbv\"", "pipeline.virtual_stages=3"},
                                     // More chunks than the models in pairs have blocks.
                                     {"pipeline.size=3", "pipeline.virtual_stages=3"},
                                     {"localsgd.steps=1", "localsgd.fragments=2"},
                                     {"localsgd.steps=1", "localsgd.overlap=true"},
                                     // Samples that change their ranks would cross replicas that are apart.
                                     {"layout", "localsgd"},
                                     {"layout", "compress"},
                                     {"recompute.every=2", "recompute.policy=\"full\""},
                                     {"recompute.every=2", "recompute.policy=\"selective\""},
                                     {"recompute.every=2", "recompute.policy=\"none\""}};
  for (const std::string schedule : {"naive", "gpipe", "1f1b", "zb-h1"}) {
    for (const std::string chunks : {"2", "3"}) {
      conflicts.push_back({"pipeline.schedule=\"" + schedule + "\"", "pipeline.virtual_stages=" + chunks});
    }
  }
  for (const OptionChoice& model : models()) {
    const std::string feature = "model.plugin=" + model.toml;
    if (!model.toml.starts_with("\"mixture\"")) conflicts.push_back({"expert", feature});
    const bool is_resnet = model.toml.starts_with("\"resnet\"");
    // Statistics of the samples of all ranks.
    if (is_resnet || model.toml.find("balance_bias") != std::string::npos) {
      for (const char* apart : {"localsgd", "compress"}) conflicts.push_back({apart, feature});
    }
    if (!is_resnet) continue;
    // Batch norms of few values amplify the rounding of 16 bits by more than one disturbance shows.
    for (const char* type : {"bf16", "fp16"}) {
      conflicts.push_back({"precision.compute=\"" + std::string(type) + "\"", feature});
    }
    // No sequence to shard.
    for (const std::string strategy : {"context", "second context"}) {
      for (const std::string size : {"2", "3"}) conflicts.push_back({strategy + ".size=" + size, feature});
    }
  }
  return conflicts;
}

}  // namespace

int ModelSizes::field(const std::string& name) const {
  if (name == "heads") return heads;
  if (name == "context") return context;
  throw std::logic_error("no field of the model divides by '" + name + "'");
}

std::size_t Grammar::strategy(const std::string& name) const {
  const auto found = std::ranges::find(strategies, name, &StrategyRow::name);
  if (found == strategies.end()) throw std::logic_error("the grammar has no strategy '" + name + "'");
  return static_cast<std::size_t>(found - strategies.begin());
}

std::size_t Grammar::option(const std::vector<OptionRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &OptionRow::name);
  if (found == rows.end()) throw std::logic_error("the grammar has no option '" + name + "'");
  return static_cast<std::size_t>(found - rows.begin());
}

const Grammar& grammar() {
  static const Grammar kGrammar{run_options(), model_sizes(), strategies(), conflicts()};
  return kGrammar;
}

}  // namespace strata::testing
