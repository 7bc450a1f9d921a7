#include "shared/token_dataset.hpp"
#include "shared/token_options.hpp"
#include "strata/error.hpp"
#include "text_source.hpp"

namespace datasets {
namespace {

using namespace strata;

class TextFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override {
    return token_inputs(false);
  }
  [[nodiscard]] DimSizes sizes(const Options& options) const override {
    if (options.word("tokenizer") == "chars") return {};
    return {{"vocab", *token_count({})}};
  }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "token"; }

  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& options, const DatasetRequest& request) const override {
    const std::int64_t context = context_of(request);
    try {
      const auto data = std::make_shared<const DataFile>(options.word("path"));
      std::shared_ptr<const TokenSource> source;
      Vocabulary vocabulary;
      if (options.word("tokenizer") == "chars") {
        const auto characters = std::make_shared<const CharacterSource>(*data);
        vocabulary = characters->vocabulary();
        source = characters;
      } else {
        source = std::make_shared<const ByteSource>(data);
      }
      const std::string file = source->name();
      const std::int64_t tokens = source->size();
      const TokenSplit split = split_tokens(tokens, options.number("validation"));
      require_window(file, tokens, "training", split.training, context);
      if (request.validates) require_window(file, tokens, "validation", split.validation, context);
      return std::make_unique<TokenDataset>(
          TokenData{.sources = {source},
                    .windows = TokenWindows({split}, context, {}),
                    .context = context,
                    .fingerprint = strata::fingerprint({data.get(), 1}),
                    .description = std::to_string(tokens) + " tokens of '" + file + "'",
                    .vocabulary = vocabulary,
                    .vocab = token_count(vocabulary)});
    } catch (const ConfigurationError& error) {
      throw OptionError("path", error.what());
    }
  }

 private:
  OptionSchema schema_{
      {.name = "path",
       .type = OptionType::word,
       .documentation = "File with the text, relative to the current directory."},
      {.name = "tokenizer",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("bytes")),
       .documentation = "What a token is: a byte, or one of the characters that occur in the text.",
       .choices = {"bytes", "chars"}},
      validation_option(),
  };
};

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "text", "0.1.0", "Apache-2.0", "A text file as a stream of bytes or characters.",
              datasets::TextFactory);
