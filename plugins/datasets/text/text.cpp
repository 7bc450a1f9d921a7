#include "shared/token_dataset.hpp"
#include "shared/token_options.hpp"
#include "strata/error.hpp"
#include "text_source.hpp"

namespace datasets {
namespace {

using namespace strata;

/// The file of the training text, and that of the validation text if it has one of its own.
class OpenedText {
 public:
  OpenedText(const Options& options, const DatasetRequest& request)
      : uses_characters_(options.word("tokenizer") == "chars"), context_(context_of(request)) {
    const std::string& own = options.word("validation_path");
    at_option("path", [&] {
      const TokenSource& source = add(options.word("path"));
      const TokenSplit split = split_tokens(source.size(), own.empty() ? options.number("validation") : 0);
      require_window(source.name(), source.size(), "training", split.training, context_);
      if (request.validates && own.empty()) {
        require_validation_share(source.name(), source.size(), split.validation, context_,
                                 options.number("validation"));
      }
      splits_.push_back(split);
    });
    if (own.empty()) return;
    at_option("validation_path", [&] {
      const TokenSource& source = add(own);
      require_window(source.name(), source.size(), "validation", {0, source.size()}, context_);
      splits_.push_back({{}, {0, source.size()}});
    });
  }

  [[nodiscard]] TokenData data() const {
    std::string description = std::to_string(sources_[0]->size()) + " tokens of '" + sources_[0]->name() + "'";
    if (sources_.size() > 1) {
      description += " and " + std::to_string(sources_[1]->size()) + " of '" + sources_[1]->name() + "'";
    }
    return {.sources = sources_,
            .windows = TokenWindows(splits_, context_, {}),
            .context = context_,
            .fingerprint = strata::fingerprint(files_),
            .description = description,
            .vocabulary = vocabulary_,
            .vocab = token_count(vocabulary_)};
  }

 private:
  const TokenSource& add(const std::string& path) {
    files_.emplace_back(path);
    if (uses_characters_) {
      const auto source =
          std::make_shared<const CharacterSource>(files_.back(), sources_.empty() ? nullptr : &vocabulary_);
      vocabulary_ = source->vocabulary();
      sources_.push_back(source);
    } else {
      sources_.push_back(std::make_shared<const ByteSource>(std::make_shared<const DataFile>(path)));
    }
    return *sources_.back();
  }

  bool uses_characters_;
  std::int64_t context_;
  std::vector<DataFile> files_;
  std::vector<std::shared_ptr<const TokenSource>> sources_;
  std::vector<TokenSplit> splits_;
  Vocabulary vocabulary_;
};

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
    return std::make_unique<TokenDataset>(OpenedText(options, request).data());
  }

 private:
  OptionSchema schema_{
      {.name = "path",
       .type = OptionType::word,
       .documentation = "File with the text, relative to the current directory.",
       .may_differ = true},
      {.name = "validation_path",
       .type = OptionType::word,
       .default_value = OptionValue(std::string()),
       .documentation = "File with the text for evaluation. Empty: a share of `path`, as `validation` says.",
       .may_differ = true},
      option::word("tokenizer", "bytes", "What a token is: a byte, or one of the characters that occur in the text.",
                   {"bytes", "chars"}),
      validation_option(),
  };
};

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "text", "0.1.0", "Apache-2.0", "A text file as a stream of bytes or characters.",
              datasets::TextFactory);
