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
      {.name = "rank",
       .type = OptionType::integer,
       .default_value = OptionValue(std::int64_t{8}),
       .documentation = "Rank of the adapters: columns of A and rows of B.",
       .minimum = 1,
       .maximum = 65536},
      {.name = "alpha",
       .type = OptionType::number,
       .default_value = OptionValue(16.0),
       .documentation = "The adapters' product is multiplied by alpha / rank.",
       .minimum = 1e-6,
       .maximum = 1e6},
      {.name = "rank_stabilized",
       .type = OptionType::boolean,
       .default_value = OptionValue(false),
       .documentation = "Multiply by alpha / √rank instead, which keeps the size of updates for large ranks (rsLoRA)."},
      {.name = "targets",
       .type = OptionType::words,
       .default_value = OptionValue(std::vector<std::string>{}),
       .documentation = "Patterns of parameters that get adapters, such as \"*.q_proj.weight\". Without any, all that "
                        "only matrix products read."},
      {.name = "train",
       .type = OptionType::words,
       .default_value = OptionValue(std::vector<std::string>{}),
       .documentation = "Patterns of parameters that are trained besides the adapters. All others are frozen."},
      {.name = "dropout",
       .type = OptionType::number,
       .default_value = OptionValue(0.0),
       .documentation = "Probability of dropout on the input of A.",
       .minimum = 0,
       .maximum = 0.99},
      {.name = "decay",
       .type = OptionType::boolean,
       .default_value = OptionValue(false),
       .documentation = "Apply the optimizer's weight decay to the adapters too. Without it, their weight decay is 0."},
      {.name = "init",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("kaiming")),
       .documentation = "Initial values of A: uniform within ±1/√inputs, or normal with deviation 1/rank. B starts at "
                        "zero.",
       .choices = {"kaiming", "normal"}},
      {.name = "base",
       .type = OptionType::word,
       .default_value = OptionValue(std::string(kFullBase)),
       .documentation = "How frozen matrices are stored: in the model's type, in integers of 8 bits, or in 4-bit "
                        "NormalFloat (QLoRA).",
       .choices = {kFullBase, "int8", "nf4"}},
      {.name = "base_block",
       .type = OptionType::integer,
       .default_value = OptionValue(std::int64_t{64}),
       .documentation = "With `base` int8 or nf4: numbers that share a scale.",
       .minimum = 2,
       .maximum = 65536},
      {.name = "base_targets",
       .type = OptionType::words,
       .default_value = OptionValue(std::vector<std::string>{}),
       .documentation = "With `base` int8 or nf4: patterns of the frozen matrices that are stored so. Without any, all "
                        "that only matrix products read."}};
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
