#include <algorithm>
#include <array>
#include <cmath>

#include "strata/error.hpp"
#include "strata/random.hpp"
#include "tokens/token_documents.hpp"
#include "tokens/token_files.hpp"

namespace datasets {
namespace {

using namespace strata;

OptionSchema make_schema() {
  std::vector<OptionSpecification> options = token_file_options();
  options.push_back(
      option::integer("sentinel", std::nullopt, 1, kLargestToken,
                      "The token that stands for the first span, such as 32099 for T5's <extra_id_0>; the "
                      "tokens below it stand for the next ones."));
  add_text_ends(options);
  options.push_back(option::number("share", 0.15, 0.001, 0.9, "Share of the tokens that the model is to predict."));
  options.push_back(option::number("span", 3.0, 1, 65536, "Mean length of a span of such tokens."));
  return OptionSchema(std::move(options));
}

/// Numbers of tokens of a window, and of the spans that are cut out of it.
struct SpanSizes {
  std::int64_t window = 0;
  std::int64_t hidden = 0;
  std::int64_t spans = 0;

  SpanSizes(std::int64_t length, double share, double mean) : window(length) {
    hidden = std::clamp<std::int64_t>(std::llround(static_cast<double>(length) * share), 1, length - 1);
    spans = std::max<std::int64_t>(std::llround(static_cast<double>(hidden) / mean), 1);
    spans = std::min(spans, length - hidden);
  }
  /// With a sentinel for each span, and the end.
  [[nodiscard]] std::int64_t source() const { return window - hidden + spans + 1; }
  [[nodiscard]] std::int64_t target() const { return hidden + spans + 1; }
};

/// The largest window whose two sequences fit.
SpanSizes fitting_sizes(const Options& options, std::int64_t source, std::int64_t target) {
  const auto sizes = [&](std::int64_t length) {
    return SpanSizes(length, options.number("share"), options.number("span"));
  };
  std::int64_t length = 2;
  if (sizes(length).source() > source || sizes(length).target() > target) {
    throw ConfigurationError("the model has " + std::to_string(source) + " tokens of the encoder and " +
                             std::to_string(target) + " of the decoder; accepted: at least 3 of each");
  }
  while (sizes(length + 1).source() <= source && sizes(length + 1).target() <= target) ++length;
  return sizes(length);
}

/// The order of the inputs.
enum Input : std::size_t { kTokens, kMask, kTargetTokens, kTargetMask, kTargets, kInputs };

/// Windows of tokens from which spans are cut out, each replaced by a sentinel. The decoder is to give the sentinels,
/// each followed by its span (Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
/// Transformer", 2019). Where spans are depends on seed, epoch and sample only.
class SpanDataset final : public Dataset {
 public:
  static OptionSchema schema() { return make_schema(); }
  SpanDataset(const Options& options, const DatasetRequest& request)
      : source_(size_of_model(request, "seq")),
        target_(size_of_model(request, "target_seq")),
        sizes_(fitting_sizes(options, source_, target_)),
        sentinel_(options.integer("sentinel")),
        end_(static_cast<std::int32_t>(options.integer("end_token"))),
        start_(static_cast<std::int32_t>(options.integer("start_token"))),
        windows_(open_token_files(options, windows_of(request))) {
    require_tokens({"end_token", "start_token"}, options, request);
    const std::int64_t vocab = size_of_model(request, "vocab");
    if (sentinel_ < vocab && sentinel_ >= sizes_.spans) return;
    throw OptionError("sentinel", "found " + std::to_string(sentinel_) + "; accepted: " + std::to_string(sizes_.spans) +
                                      " to " + std::to_string(vocab - 1) + ", for " + std::to_string(sizes_.spans) +
                                      " spans of a sample");
  }

  [[nodiscard]] DimSizes sizes() const override { return with_mask_sizes({{"seq", source_}, {"target_seq", target_}}); }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override { return windows_.samples(split); }
  void read(const SampleKey& key, std::span<void* const> given) const override {
    const std::vector<void*> destinations = all_destinations(given, kInputs);
    std::vector<std::int32_t> window(static_cast<std::size_t>(sizes_.window));
    const std::array<void*, 1> of_window{window.data()};
    windows_.read(key, of_window);
    const bool trains = key.split == DataSplit::training;
    const std::uint64_t epoch = random::stream_key(key.seed, trains ? "spans" : "spans of validation", key.epoch);
    const std::uint64_t stream = random::step_key(epoch, static_cast<std::uint64_t>(key.index));
    const std::vector<std::int64_t> kept = divide(stream, sizes_.window - sizes_.hidden, sizes_.spans);
    const std::vector<std::int64_t> hidden = divide(stream + 1, sizes_.hidden, sizes_.spans);
    std::vector<std::int32_t> source;
    std::vector<std::int32_t> target;
    auto at = window.begin();
    for (std::size_t span = 0; span < kept.size(); ++span) {
      const auto sentinel = static_cast<std::int32_t>(sentinel_ - static_cast<std::int64_t>(span));
      source.insert(source.end(), at, at + kept[span]);
      source.push_back(sentinel);
      at += kept[span];
      target.push_back(sentinel);
      target.insert(target.end(), at, at + hidden[span]);
      at += hidden[span];
    }
    source.push_back(end_);
    target.push_back(end_);
    write_padded(source, source_, start_, destinations[kTokens]);
    write_mask(source.size(), source_, destinations[kMask]);
    write_targets(target, target_, start_, std::span(destinations).subspan(kTargetTokens));
  }
  [[nodiscard]] std::string fingerprint() const override { return windows_.fingerprint(); }
  [[nodiscard]] std::string description() const override { return windows_.description(); }
  [[nodiscard]] std::optional<Vocabulary> vocabulary() const override { return windows_.vocabulary(); }

 private:
  [[nodiscard]] DatasetRequest windows_of(DatasetRequest request) const {
    request.sizes["seq"] = sizes_.window;
    return request;
  }

  /// Lengths of `parts` runs that have `total` tokens, each at least 1: all divisions are as likely.
  static std::vector<std::int64_t> divide(std::uint64_t key, std::int64_t total, std::int64_t parts) {
    std::vector<std::int64_t> lengths{1};
    const auto gaps = static_cast<std::uint64_t>(total - 1);
    for (std::uint64_t gap = 0; gap < gaps; ++gap) {
      const bool begins = random::permuted(key, gaps, gap) < static_cast<std::uint64_t>(parts - 1);
      begins ? lengths.push_back(1) : void(++lengths.back());
    }
    return lengths;
  }

  std::int64_t source_;
  std::int64_t target_;
  SpanSizes sizes_;
  std::int64_t sentinel_;
  std::int32_t end_, start_;
  TokenDataset windows_;
};

using SpanFactory = TwoSequenceFactory<SpanDataset>;

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "spans", "0.1.0", "Apache-2.0",
              "Files of tokens from which spans are cut out anew in each epoch, as for T5.", datasets::SpanFactory);
