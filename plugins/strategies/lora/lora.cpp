#include "lora.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "strata/error.hpp"
#include "strata/peft.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace lora {
namespace {

using namespace strata;

constexpr const char* kFullBase = "full";

/// \throws OptionError for options of `base` beside a base that is not quantized, or for an odd block of 4-bit codes.
std::optional<WeightBlocks> read_base(const Options& options) {
  const std::string& base = options.word("base");
  if (base == kFullBase) {
    if (options.words("base_targets").empty()) return std::nullopt;
    throw OptionError("base_targets", "found patterns beside base = \"full\"; accepted: beside \"int8\" or \"nf4\"");
  }
  const WeightBlocks blocks{base == "nf4" ? WeightCode::nf4 : WeightCode::int8, options.integer("base_block")};
  if (blocks.code == WeightCode::nf4 && blocks.size % 2 != 0) {
    throw OptionError("base_block", "found " + std::to_string(blocks.size) + "; accepted: an even number for nf4");
  }
  return blocks;
}

OptionSchema option_schema() {
  return {
      option::integer("rank", 8, 1, 65536, "Rank of the adapters: columns of A and rows of B."),
      option::number("alpha", 16.0, 1e-6, 1e6, "The adapters' product is multiplied by alpha / rank."),
      option::boolean("rank_stabilized", false,
                      "Multiply by alpha / √rank instead, which keeps the size of updates for large ranks (rsLoRA)."),
      option::words("targets",
                    "Patterns of parameters that get adapters, such as \"*.q_proj.weight\". Without any, all that "
                    "only matrix products read."),
      option::words("train", "Patterns of parameters that are trained besides the adapters. All others are frozen."),
      option::number("dropout", 0.0, 0, 0.99, "Probability of dropout on the input of A."),
      option::boolean("decay", false,
                      "Apply the optimizer's weight decay to the adapters too. Without it, their weight decay is 0."),
      option::word("init", "kaiming",
                   "Initial values of A: uniform within ±1/√inputs, or normal with deviation 1/rank. B starts at "
                   "zero.",
                   {"kaiming", "normal"}),
      option::word("base", kFullBase,
                   "How frozen matrices are stored: in the model's type, in integers of 8 bits, or in 4-bit "
                   "NormalFloat (QLoRA).",
                   {kFullBase, "int8", "nf4"}),
      option::integer("base_block", 64, 2, 65536, "With `base` int8 or nf4: numbers that share a scale."),
      option::words("base_targets",
                    "With `base` int8 or nf4: patterns of the frozen matrices that are stored so. Without any, all "
                    "that only matrix products read.")};
}

Settings read_settings(const Options& options) {
  Settings settings;
  settings.targets = options.words("targets");
  settings.train = options.words("train");
  settings.rank = options.integer("rank");
  const auto rank = static_cast<double>(settings.rank);
  settings.scale = options.number("alpha") / (options.boolean("rank_stabilized") ? std::sqrt(rank) : rank);
  settings.dropout = options.number("dropout");
  settings.decay = options.boolean("decay");
  settings.start = options.word("init") == "normal" ? Start::normal : Start::kaiming;
  settings.base = read_base(options);
  settings.base_targets = options.words("base_targets");
  return settings;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_one(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

/// The names with * for numbers of layers, each once: "h.*.attn.q.weight".
std::vector<std::string> patterns_of(const std::vector<std::string>& names) {
  std::vector<std::string> patterns;
  for (const std::string& name : names) {
    std::vector<std::string> parts;
    std::istringstream stream(name);
    for (std::string part; std::getline(stream, part, '.');) {
      parts.push_back(part.find_first_not_of("0123456789") == std::string::npos ? "*" : part);
    }
    const std::string pattern = join(parts, ".");
    if (!contains(patterns, pattern)) patterns.push_back(pattern);
  }
  return patterns;
}

/// Chooses the parameters that get adapters.
class Selection {
 public:
  Selection(const Graph& graph, const Settings& settings) : graph_(graph), settings_(settings), uses_(graph) {
    for (const LowRankTerm& term : graph.low_rank_terms) {
      adapters_.insert({term.a, term.b});
      adapted_.insert(term.parameter);
    }
  }

  [[nodiscard]] const ParameterUses& uses() const { return uses_; }

  /// Parameters of the model that can be trained or frozen.
  [[nodiscard]] bool is_of_model(const Parameter& parameter) const {
    return parameter.role != ParameterRole::constant && !adapters_.contains(parameter.name);
  }

  void require_matches(const char* option, const std::vector<std::string>& patterns) const {
    std::vector<std::string> names;
    for (const Parameter& parameter : graph_.parameters) {
      if (is_of_model(parameter)) names.push_back(parameter.name);
    }
    for (const std::string& pattern : patterns) {
      const bool found =
          std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches(pattern, name); });
      if (found) continue;
      const std::string similar = nearest(pattern, names);
      throw OptionError(option, "found \"" + pattern + "\", which matches no parameter" +
                                    (similar.empty() ? "" : "; did you mean \"" + similar + "\"?") +
                                    "; accepted: patterns of names, which are " + join(patterns_of(names), ", "));
    }
  }

  [[nodiscard]] std::vector<Parameter> parameters() const {
    std::vector<Parameter> chosen;
    for (const Parameter& parameter : graph_.parameters) {
      if (is_of_model(parameter) && is_chosen(parameter)) chosen.push_back(parameter);
    }
    if (chosen.empty() && settings_.targets.empty()) {
      throw OptionError(
          "targets",
          "found none, and no parameter without adapters is left that only matrix products read; accepted: "
          "patterns of names");
    }
    return chosen;
  }

  /// The parameters that are stored in `base`. Called when the model is frozen.
  [[nodiscard]] std::vector<std::string> quantized() const {
    std::vector<std::string> names;
    for (const Parameter& parameter : graph_.parameters) {
      const bool is_frozen = is_of_model(parameter) && parameter.role == ParameterRole::frozen;
      if (is_frozen && is_quantized(parameter)) names.push_back(parameter.name);
    }
    if (!names.empty()) return names;
    throw OptionError("base",
                      "found a code for frozen matrices, but the model has none that only matrix products read; "
                      "accepted: \"full\"");
  }

 private:
  [[nodiscard]] bool is_quantized(const Parameter& parameter) const {
    const bool is_matrix = uses_.is_matrix_of_products(parameter);
    if (settings_.base_targets.empty()) return is_matrix;
    if (!matches_one(settings_.base_targets, parameter.name)) return false;
    // Generation reads a part of the model only.
    if (is_matrix || (graph_.mode == GraphMode::evaluation && uses_.of(parameter).empty())) return is_matrix;
    throw OptionError("base_targets", "found a pattern of parameter '" + parameter.name +
                                          "'; accepted: patterns of matrices that only matrix products read");
  }

  [[nodiscard]] bool is_chosen(const Parameter& parameter) const {
    const std::string& name = parameter.name;
    const bool is_trained = matches_one(settings_.train, name);
    if (settings_.targets.empty()) {
      return !is_trained && !adapted_.contains(name) && uses_.is_matrix_of_products(parameter);
    }
    if (!matches_one(settings_.targets, name)) return false;
    if (is_trained) {
      throw OptionError("train", "found patterns of parameter '" + name + "' here and in `targets`; accepted: in one");
    }
    if (adapted_.contains(name)) {
      throw OptionError("targets",
                        "found a pattern of parameter '" + name + "', which has adapters of an earlier strategy");
    }
    // Generation reads a part of the model only.
    if (graph_.mode == GraphMode::evaluation && uses_.of(parameter).empty()) return false;
    std::string reason;
    if (uses_.sides(parameter, reason)) return true;
    throw OptionError("targets", "found a pattern of parameter '" + name + "', of which " + reason +
                                     "; accepted: patterns of matrices that products and embeddings read");
  }

  const Graph& graph_;
  const Settings& settings_;
  ParameterUses uses_;
  std::set<std::string> adapters_;
  std::set<std::string> adapted_;
};

/// Freezes the parameters of the model, except those to train.
void freeze(Graph& graph, const std::vector<std::string>& train) {
  for (Parameter& parameter : graph.parameters) {
    if (parameter.role == ParameterRole::trained && !matches_one(train, parameter.name)) {
      parameter.role = ParameterRole::frozen;
    }
  }
}

/// \throws OptionError if an earlier strategy has quantized the base, whose matrices have no adapters yet.
void require_full_base(const Graph& graph) {
  const std::vector<Node>& nodes = graph.nodes();
  const bool is_quantized = std::any_of(nodes.begin(), nodes.end(), is_dequantization);
  if (is_quantized) throw OptionError("base", "an earlier lora strategy has one; accepted: in the last one");
}

/// Low-rank adapters (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021). Each product with a
/// chosen parameter W gets the term scale · (x A) B. A and B are trained, and the other parameters are frozen. They may
/// be stored in 8 or 4 bits (Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023).
class Lora final : public Strategy {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Lora(const Options& options) : settings_(read_settings(options)) {}

  void rewrite_forward(Graph& graph, const OpRegistry& registry) const override {
    require_full_base(graph);
    const Selection selection(graph, settings_);
    selection.require_matches("targets", settings_.targets);
    selection.require_matches("train", settings_.train);
    selection.require_matches("base_targets", settings_.base_targets);
    const bool is_first = graph.low_rank_terms.empty();
    if (!is_first && !settings_.train.empty()) {
      throw OptionError("train",
                        "found patterns, but an earlier lora strategy has frozen the model; accepted: in the "
                        "first one");
    }
    const std::vector<Parameter> chosen = selection.parameters();
    if (is_first) freeze(graph, settings_.train);
    AdapterBuilder builder(graph, registry, settings_);
    for (const Parameter& parameter : chosen) {
      std::string reason;
      builder.add(parameter, *selection.uses().sides(parameter, reason), selection.uses().of(parameter));
    }
    const std::vector<std::string> quantized = settings_.base ? selection.quantized() : std::vector<std::string>{};
    builder.place();
    if (settings_.base) quantize_parameters(graph, registry, quantized, *settings_.base);
  }

  void rewrite(Graph& graph, const OpRegistry& /*registry*/) const override {
    if (settings_.base) dequantize_again(graph);
  }

 private:
  Settings settings_;
};

class LoraFactory final : public FactoryOf<AdapterFactory, Lora> {
 public:
  [[nodiscard]] bool changes_model() const override { return true; }
  [[nodiscard]] std::map<std::string, OptionValue> adapter_options(const PeftAdapters& adapters) const override {
    return {{"rank", adapters.rank},
            {"alpha", adapters.scale * static_cast<double>(adapters.rank)},
            {"targets", adapters.parameters},
            {"dropout", adapters.dropout}};
  }
};

}  // namespace
}  // namespace lora

STRATA_PLUGIN(strategy, "lora", "0.1.0", "Apache-2.0",
              "Low-rank adapters: trains two small matrices beside each frozen one.", lora::LoraFactory);
