#include <array>
#include <string_view>

#include "common/options.hpp"
#include "gpt2.hpp"
#include "strata/error.hpp"

namespace gpt2 {
namespace {

using namespace strata;
using models::size_option;

struct NamedSize {
  std::string_view name;
  std::int64_t layers;
  std::int64_t heads;
  std::int64_t embed;
};

/// The published sizes. All have context 1024 and vocabulary 50257.
constexpr std::array<NamedSize, 4> kSizes{{{"gpt2-124m", 12, 12, 768},
                                           {"gpt2-355m", 24, 16, 1024},
                                           {"gpt2-774m", 36, 20, 1280},
                                           {"gpt2-1558m", 48, 25, 1600}}};

}  // namespace

const OptionSchema& option_schema() {
  static const OptionSchema schema{
      option::word(
          "size", "custom",
          "A published size, which gives layers, heads, embed, context (1024) and vocab (50257); fields that are set "
          "override it.",
          {"custom", "gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1558m"}),
      size_option("layers", "Transformer blocks; 0: the size's, 12 for custom.", 4096),
      size_option("heads", "Attention heads; must divide embed; 0: the size's, 12 for custom.", 4096),
      size_option("embed", "Width of the residual stream; 0: the size's, 768 for custom.", 1048576),
      size_option("context", "Tokens of a sequence; 0: 1024.", 16777216),
      size_option("vocab", "Rows of the embedding; 0: as many as the tokenizer has, or the size's.", 16777216),
      option::number("dropout", 0.1, 0, 0.99, "Probability with which embeddings and residual branches are dropped."),
      option::number("attention_dropout", -1.0, -1, 0.99,
                     "Probability with which attention weights are dropped; -1: the same as dropout."),
      option::integer("window", 0, 0, 16777216,
                      "Tokens that attention sees: a token itself and the ones just before it; 0: all before it."),
      models::documents_option()};
  return schema;
}

Settings settings_from(const Options& options) {
  Settings settings;
  for (const NamedSize& size : kSizes) {
    if (options.word("size") != size.name) continue;
    settings.layers = size.layers;
    settings.heads = size.heads;
    settings.embed = size.embed;
    settings.vocab = 50257;
  }
  const auto override_field = [&](const char* name, std::int64_t& field) {
    if (options.integer(name) > 0) field = options.integer(name);
  };
  override_field("layers", settings.layers);
  override_field("heads", settings.heads);
  override_field("embed", settings.embed);
  override_field("context", settings.context);
  override_field("vocab", settings.vocab);
  settings.dropout = options.number("dropout");
  settings.attention_dropout = options.number("attention_dropout");
  if (settings.attention_dropout < 0) settings.attention_dropout = settings.dropout;
  settings.window = options.integer("window");
  settings.documents = options.boolean("documents");
  if (settings.embed % settings.heads != 0) {
    throw OptionError("heads", std::to_string(settings.heads) + " heads do not divide embed = " +
                                   std::to_string(settings.embed) + "; choose a divisor of embed");
  }
  return settings;
}

}  // namespace gpt2
