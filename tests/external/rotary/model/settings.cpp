#include "model/settings.hpp"

#include "strata/error.hpp"

namespace rotary {
namespace {

using namespace strata;

OptionSpecification size(const std::string& name, std::int64_t default_value, const std::string& documentation,
                         double minimum = 1) {
  return {.name = name,
          .type = OptionType::integer,
          .default_value = default_value,
          .documentation = documentation,
          .minimum = minimum,
          .maximum = 1 << 24};
}

}  // namespace

const OptionSchema& option_schema() {
  static const Settings defaults;
  static const OptionSchema schema{
      size("layers", defaults.layers, "Transformer blocks."),
      size("heads", defaults.heads, "Attention heads; embed / heads must be an even number."),
      size("embed", defaults.embed, "Width of the residual stream."),
      size("context", defaults.context, "Tokens of a sequence."),
      size("vocab", defaults.vocab, "Rows of the embedding; 0: as many as the tokenizer has.", 0),
      {.name = "base",
       .type = OptionType::number,
       .default_value = defaults.base,
       .documentation = "Base of the rotary angles; larger for longer contexts.",
       .minimum = 2,
       .maximum = 1e9}};
  return schema;
}

Settings settings_from(const Options& options) {
  const Settings settings{options.integer("layers"),  options.integer("heads"), options.integer("embed"),
                          options.integer("context"), options.integer("vocab"), options.number("base")};
  if (settings.embed % (2 * settings.heads) != 0) {
    throw OptionError("heads", "found " + std::to_string(settings.heads) +
                                   "; accepted: a number that divides embed = " + std::to_string(settings.embed) +
                                   " into an even head_dim");
  }
  return settings;
}

}  // namespace rotary
