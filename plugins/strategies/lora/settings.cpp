#include "settings.hpp"

#include <cmath>

#include "strata/error.hpp"

namespace lora {

using namespace strata;

namespace {

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

}  // namespace

const OptionSchema& schema() {
  static const OptionSchema kSchema{
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
  return kSchema;
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

}  // namespace lora
