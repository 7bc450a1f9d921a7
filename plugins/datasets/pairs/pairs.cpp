#include "strata/error.hpp"
#include "tokens/token_documents.hpp"

namespace datasets {
namespace {

using namespace strata;

OptionSchema make_schema() {
  std::vector<OptionSpecification> options = document_options();
  options.push_back(data_option("path", OptionType::word, std::nullopt,
                                "File with the tokens that the encoder reads, a document for each sample.",
                                OptionRole::training_data));
  options.push_back(data_option("target_path", OptionType::word, std::nullopt,
                                "File with the tokens that the decoder is to give, with as many documents.",
                                OptionRole::training_data));
  add_text_ends(options);
  return OptionSchema(std::move(options));
}

/// Pairs of documents. Those that are longer than the model's sequences are cut.
class PairDataset final : public Dataset {
 public:
  static OptionSchema schema() { return make_schema(); }
  PairDataset(const Options& options, const DatasetRequest& request)
      : source_(size_of_model(request, "seq")),
        target_(size_of_model(request, "target_seq")),
        end_(static_cast<std::int32_t>(options.integer("end_token"))),
        start_(static_cast<std::int32_t>(options.integer("start_token"))),
        sources_("path", options, request),
        targets_("target_path", options, request),
        split_(sources_.count(), options, request) {
    require_tokens({"end_token", "start_token"}, options, request);
    require_as_many("target_path", targets_, sources_);
  }

  [[nodiscard]] DimSizes sizes() const override { return with_mask_sizes({{"seq", source_}, {"target_seq", target_}}); }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override { return split_.samples(split); }
  void read(const SampleKey& key, std::span<void* const> given) const override {
    const std::vector<void*> destinations = all_destinations(given, 5);
    const std::int64_t document = split_.document(key);
    const auto ended = [&](const TokenDocuments& documents, std::int64_t length) {
      std::vector<std::int32_t> tokens = documents.read(document, length - 1);
      tokens.push_back(end_);
      return tokens;
    };
    const std::vector<std::int32_t> source = ended(sources_, source_);
    write_padded(source, source_, start_, destinations[0]);
    write_mask(source.size(), source_, destinations[1]);
    write_targets(ended(targets_, target_), target_, start_, std::span(destinations).subspan(2));
  }
  [[nodiscard]] std::string fingerprint() const override {
    return sources_.fingerprint() + " " + targets_.fingerprint();
  }
  [[nodiscard]] std::string description() const override {
    return std::to_string(sources_.count()) + " pairs of '" + sources_.name() + "' and '" + targets_.name() + "'";
  }
  [[nodiscard]] std::optional<Vocabulary> vocabulary() const override {
    return Vocabulary{.kind = Vocabulary::Kind::tokens};
  }

 private:
  std::int64_t source_;
  std::int64_t target_;
  std::int32_t end_, start_;
  TokenDocuments sources_;
  TokenDocuments targets_;
  DocumentSplit split_;
};

using PairFactory = TwoSequenceFactory<PairDataset>;

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "pairs", "0.1.0", "Apache-2.0",
              "Pairs of documents of two files of tokens, for an encoder and a decoder.", datasets::PairFactory);
