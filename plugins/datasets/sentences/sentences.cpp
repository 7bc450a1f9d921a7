#include <algorithm>
#include <memory>
#include <optional>

#include "strata/error.hpp"
#include "tokens/token_documents.hpp"
#include "tokens/token_file.hpp"

namespace datasets {
namespace {

using namespace strata;

OptionSchema make_schema() {
  std::vector<OptionSpecification> options = document_options();
  options.push_back(data_option("path", OptionType::word, std::nullopt,
                                "File with the tokens of the sentences, a document for each.",
                                OptionRole::training_data));
  options.push_back(data_option("second_path", OptionType::word, std::string(),
                                "File with a second sentence for each. Empty: there is one.",
                                OptionRole::training_data));
  options.push_back(data_option("labels", OptionType::word, std::nullopt,
                                "File with the class of each sentence, as raw tokens of 16 bits.",
                                OptionRole::training_data));
  options.push_back(option::integer("first_token", std::nullopt, 0, kLargestToken,
                                    "The token before the first sentence, such as 101 for BERT's [CLS]."));
  options.push_back(option::integer("last_token", std::nullopt, 0, kLargestToken,
                                    "The token after each sentence, such as 102 for BERT's [SEP]."));
  options.push_back(option::integer("padding", 0, 0, kLargestToken, "The token that fills sequences."));
  return OptionSchema(std::move(options));
}

/// The order of the inputs.
enum Input : std::size_t { kTokens, kSegments, kMask, kLabels, kPositions, kInputs };

/// Sentences, or pairs of them, and their classes. The longer sentence of a pair is cut where both are too long.
class SentenceDataset final : public Dataset {
 public:
  static OptionSchema schema() { return make_schema(); }
  SentenceDataset(const Options& options, const DatasetRequest& request)
      : length_(size_of_model(request, "seq")),
        first_token_(static_cast<std::int32_t>(options.integer("first_token"))),
        last_token_(static_cast<std::int32_t>(options.integer("last_token"))),
        padding_(static_cast<std::int32_t>(options.integer("padding"))),
        first_("path", options, request),
        split_(first_.count(), options, request) {
    require_tokens({"first_token", "last_token", "padding"}, options, request);
    if (length_ < 5)
      throw ConfigurationError("the model has " + std::to_string(length_) + " tokens; accepted: 5 or more");
    if (!options.word("second_path").empty()) {
      second_.emplace("second_path", options, request);
      require_as_many("second_path", *second_, first_);
      const auto segments = request.sizes.find("segments");
      if (segments != request.sizes.end() && segments->second < 2) {
        throw OptionError("second_path",
                          "the model has segments = 1; accepted: a model with 2 or more kinds of tokens, or no file");
      }
    }
    at_option("labels", [&] { read_labels(options.word("labels"), size_of_model(request, "classes")); });
  }

  [[nodiscard]] DimSizes sizes() const override { return with_mask_sizes({{"seq", length_}}); }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override { return split_.samples(split); }
  void read(const SampleKey& key, std::span<void* const> given) const override {
    const std::vector<void*> destinations = all_destinations(given, kInputs);
    const std::int64_t document = split_.document(key);
    const std::int64_t room = length_ - (second_ ? 3 : 2);
    std::vector<std::int32_t> first = first_.read(document, room);
    std::vector<std::int32_t> second = second_ ? second_->read(document, room) : std::vector<std::int32_t>{};
    while (std::ssize(first) + std::ssize(second) > room) (first.size() > second.size() ? first : second).pop_back();
    std::vector<std::int32_t> tokens{first_token_};
    tokens.insert(tokens.end(), first.begin(), first.end());
    tokens.push_back(last_token_);
    std::vector<std::int32_t> segments(tokens.size(), 0);
    if (second_) {
      tokens.insert(tokens.end(), second.begin(), second.end());
      tokens.push_back(last_token_);
      segments.resize(tokens.size(), 1);
    }
    write_padded(tokens, length_, padding_, destinations[kTokens]);
    write_padded(segments, length_, 0, destinations[kSegments]);
    write_mask(tokens.size(), length_, destinations[kMask]);
    if (destinations[kLabels] != nullptr) {
      *static_cast<std::int32_t*>(destinations[kLabels]) = labels_[static_cast<std::size_t>(document)];
    }
  }
  void read_common(std::span<void* const> given) const override {
    write_positions(length_, all_destinations(given, kInputs)[kPositions]);
  }
  [[nodiscard]] std::string fingerprint() const override {
    return first_.fingerprint() + (second_ ? " " + second_->fingerprint() : "") + " " +
           strata::fingerprint(label_files_);
  }
  [[nodiscard]] std::string description() const override {
    return std::to_string(first_.count()) + (second_ ? " pairs of '" : " sentences of '") + first_.name() + "'";
  }
  [[nodiscard]] std::optional<Vocabulary> vocabulary() const override {
    return Vocabulary{.kind = Vocabulary::Kind::tokens};
  }

 private:
  void read_labels(const std::string& path, std::int64_t classes) {
    const auto file = std::make_shared<const DataFile>(path);
    label_files_.emplace_back(path);
    labels_.resize(static_cast<std::size_t>(file->bytes() / 2));
    if (file->bytes() % 2 != 0 || std::ssize(labels_) != first_.count()) {
      throw ConfigurationError("'" + path + "': found " + std::to_string(file->bytes()) +
                               " bytes; accepted: " + std::to_string(2 * first_.count()) + ", 2 for each of " +
                               std::to_string(first_.count()) + " sentences");
    }
    TokenFile(file, {TokenType::uint16, 0, std::ssize(labels_)}, {}).read(0, std::ssize(labels_), labels_.data());
    const auto bad = std::find_if(labels_.begin(), labels_.end(), [&](std::int32_t label) { return label >= classes; });
    if (bad == labels_.end()) return;
    throw ConfigurationError("'" + path + "': found class " + std::to_string(*bad) + " for sentence " +
                             std::to_string(bad - labels_.begin()) + "; accepted: 0 to " + std::to_string(classes - 1) +
                             ", as the model has " + std::to_string(classes) + " classes");
  }

  std::int64_t length_;
  std::int32_t first_token_, last_token_, padding_;
  TokenDocuments first_;
  std::optional<TokenDocuments> second_;
  DocumentSplit split_;
  std::vector<DataFile> label_files_;
  std::vector<std::int32_t> labels_;
};

class SentenceFactory final : public MaskingFactory<SentenceDataset> {
 public:
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override {
    return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
            {.name = "segments", .dims = {"seq"}, .indexes = "segments"},
            mask_input("mask", "seq"),
            {.name = "labels", .dims = {}, .indexes = "classes", .is_target = true},
            {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false}};
  }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "sentence"; }
};

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "sentences", "0.1.0", "Apache-2.0",
              "Sentences or pairs of them as tokens, with a class for each.", datasets::SentenceFactory);
