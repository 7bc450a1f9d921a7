#include <algorithm>
#include <array>

#include "strata/error.hpp"
#include "strata/random.hpp"
#include "tokens/token_documents.hpp"
#include "tokens/token_files.hpp"

namespace datasets {
namespace {

using namespace strata;

OptionSchema make_schema() {
  std::vector<OptionSpecification> options = token_file_options();
  options.push_back(option::integer("mask_token", std::nullopt, 0, kLargestToken,
                                    "The token that stands for a masked one, such as 103 for BERT's [MASK]."));
  options.push_back(option::integer("first_token", -1, -1, kLargestToken,
                                    "A token before each sequence, such as 101 for BERT's [CLS]; -1: none."));
  options.push_back(option::integer("last_token", -1, -1, kLargestToken,
                                    "A token after each sequence, such as 102 for BERT's [SEP]; -1: none."));
  options.push_back(option::number("share", 0.15, 0.001, 1, "Share of the tokens that the model is to predict."));
  return OptionSchema(std::move(options));
}

/// The order of the inputs.
enum Input : std::size_t { kTokens, kTargets, kMask, kSegments, kPositions, kInputs };

/// Windows of tokens, of which some are to be predicted (Devlin et al., "BERT", 2018): of these, 80 % are replaced by
/// the mask token, 10 % by a random token, and 10 % stay. Which ones depends on seed, epoch and sample only.
class MaskedDataset final : public Dataset {
 public:
  static OptionSchema schema() { return make_schema(); }
  MaskedDataset(const Options& options, const DatasetRequest& request)
      : mask_(static_cast<std::int32_t>(options.integer("mask_token"))),
        first_(static_cast<std::int32_t>(options.integer("first_token"))),
        last_(static_cast<std::int32_t>(options.integer("last_token"))),
        document_end_(static_cast<std::int32_t>(options.integer("document_end"))),
        share_(options.number("share")),
        length_(size_of_model(request, "seq")),
        vocab_(size_of_model(request, "vocab")),
        windows_(open_token_files(options, windows_of(request))) {
    require_tokens({"mask_token", "first_token", "last_token"}, options, request);
  }

  [[nodiscard]] DimSizes sizes() const override { return with_mask_sizes({{"seq", length_}}); }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override { return windows_.samples(split); }
  void read(const SampleKey& key, std::span<void* const> given) const override {
    const std::vector<void*> destinations = all_destinations(given, kInputs);
    write_mask(static_cast<std::size_t>(length_), length_, destinations[kMask]);
    write_padded({}, length_, 0, destinations[kSegments]);
    auto* tokens = static_cast<std::int32_t*>(destinations[kTokens]);
    auto* targets = static_cast<std::int32_t*>(destinations[kTargets]);
    if (tokens == nullptr && targets == nullptr) return;
    std::vector<std::int32_t> window(static_cast<std::size_t>(window_length()));
    const std::array<void*, 1> of_window{window.data()};
    windows_.read(key, of_window);
    const bool trains = key.split == DataSplit::training;
    const std::uint64_t stream =
        random::stream_key(key.seed, trains ? "masked tokens" : "masked validation", key.epoch);
    std::vector<std::int32_t> answers(static_cast<std::size_t>(length_), -1);
    std::vector<std::int32_t> shown(static_cast<std::size_t>(length_));
    const std::int64_t begin = first_ >= 0 ? 1 : 0;
    if (first_ >= 0) shown.front() = first_;
    if (last_ >= 0) shown.back() = last_;
    for (std::int64_t i = 0; i < window_length(); ++i) {
      const std::int32_t token = window[static_cast<std::size_t>(i)];
      const auto at = static_cast<std::size_t>(begin + i);
      shown[at] = token;
      // Three words of a block: whether, how, and by which token.
      const auto index = static_cast<std::uint64_t>(key.index * length_ + begin + i);
      const bool is_chosen = random::philox4x32(stream, index)[0] < random::drop_threshold(share_) || share_ == 1;
      if (!is_chosen || token == document_end_) continue;
      answers[at] = token;
      shown[at] = hidden(stream, index, token);
    }
    if (tokens != nullptr) std::copy(shown.begin(), shown.end(), tokens);
    if (targets != nullptr) std::copy(answers.begin(), answers.end(), targets);
  }
  void read_common(std::span<void* const> given) const override {
    write_positions(length_, all_destinations(given, kInputs)[kPositions]);
  }
  [[nodiscard]] std::string fingerprint() const override { return windows_.fingerprint(); }
  [[nodiscard]] std::string description() const override { return windows_.description(); }
  [[nodiscard]] std::optional<Vocabulary> vocabulary() const override { return windows_.vocabulary(); }

 private:
  /// Of the tokens of a sequence, those that a window of the files has.
  [[nodiscard]] std::int64_t window_length() const { return length_ - (first_ >= 0 ? 1 : 0) - (last_ >= 0 ? 1 : 0); }
  [[nodiscard]] DatasetRequest windows_of(DatasetRequest request) const {
    if (window_length() < 1) {
      throw ConfigurationError("the model has " + std::to_string(length_) +
                               " tokens of a sequence; accepted: more than first_token and last_token");
    }
    request.sizes["seq"] = window_length();
    return request;
  }
  [[nodiscard]] std::int32_t hidden(std::uint64_t stream, std::uint64_t index, std::int32_t token) const {
    const auto words = random::philox4x32(stream, index);
    if (words[1] < random::drop_threshold(0.8)) return mask_;
    if (words[1] >= random::drop_threshold(0.9)) return token;
    return static_cast<std::int32_t>(static_cast<std::uint64_t>(words[2]) * static_cast<std::uint64_t>(vocab_) >> 32U);
  }

  std::int32_t mask_, first_, last_, document_end_;
  double share_;
  std::int64_t length_;
  std::int64_t vocab_;
  TokenDataset windows_;
};

class MaskedFactory final : public MaskingFactory<MaskedDataset> {
 public:
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override {
    return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
            {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true},
            mask_input("mask", "seq"),
            {.name = "segments", .dims = {"seq"}, .indexes = "segments"},
            {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false}};
  }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "masked token"; }
};

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "masked", "0.1.0", "Apache-2.0",
              "Files of tokens, some of which are masked anew in each epoch and are to be predicted, as for BERT.",
              datasets::MaskedFactory);
