#include "settings.hpp"

#include <cmath>

namespace lora {

using namespace strata;

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
      {.name = "init",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("kaiming")),
       .documentation = "Initial values of A: uniform within ±1/√inputs, or normal with deviation 1/rank. B starts at "
                        "zero.",
       .choices = {"kaiming", "normal"}}};
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
  settings.start = options.word("init") == "normal" ? Start::normal : Start::kaiming;
  return settings;
}

}  // namespace lora
