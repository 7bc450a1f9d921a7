#include "shared/token_windows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "strata/random.hpp"

namespace datasets {
namespace {

using namespace strata;

/// Name of a stream of random numbers of one source.
std::string stream(const std::string& name, std::size_t source) {
  return source == 0 ? name : name + " " + std::to_string(source);
}

}  // namespace

TokenSplit split_tokens(std::int64_t tokens, double validation) {
  const auto size = static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * validation));
  return {{0, tokens - size}, {tokens - size, size}};
}

TokenWindows::TokenWindows(const std::vector<TokenSplit>& splits, std::int64_t context,
                           const std::vector<double>& weights)
    : context_(context) {
  for (const TokenSplit& split : splits) {
    Source& source = sources_.emplace_back();
    source.training = split.training;
    source.validation = split.validation;
    if (split.training.size > context) source.windows = std::max<std::int64_t>(1, split.training.size / context - 1);
    if (split.validation.size > context) source.validation_windows = (split.validation.size - 2) / context + 1;
    source.share = source.windows;
  }
  if (!weights.empty()) deal(weights);
}

/// Gives every source the share of its weight. What rounding leaves over goes to the largest remainders.
void TokenWindows::deal(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::int64_t left = samples(DataSplit::training);
  const auto all = static_cast<double>(left);
  std::vector<double> remainders;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const double exact = all * weights[i] / sum;
    sources_[i].share = static_cast<std::int64_t>(std::floor(exact));
    remainders.push_back(exact - std::floor(exact));
    left -= sources_[i].share;
  }
  for (; left > 0; --left) {
    const auto largest = std::max_element(remainders.begin(), remainders.end());
    ++sources_[static_cast<std::size_t>(largest - remainders.begin())].share;
    *largest = -1;
  }
}

std::int64_t TokenWindows::samples(DataSplit split) const {
  std::int64_t samples = 0;
  for (const Source& source : sources_) {
    samples += split == DataSplit::training ? source.share : source.validation_windows;
  }
  return samples;
}

Window TokenWindows::find(const SampleKey& key) const {
  std::int64_t index = key.index;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    const std::int64_t count = key.split == DataSplit::training ? source.share : source.validation_windows;
    if (index >= count) {
      index -= count;
      continue;
    }
    if (key.split == DataSplit::training) return {i, training_begin(i, index, key)};
    const std::int64_t repeated = std::max<std::int64_t>(0, (index + 1) * context_ + 1 - source.validation.size);
    return {i, source.validation.begin + index * context_ - repeated, repeated};
  }
  return {};
}

std::int64_t TokenWindows::training_begin(std::size_t number, std::int64_t index, const SampleKey& key) const {
  const Source& source = sources_[number];
  std::uint64_t pass = key.epoch;
  auto window = static_cast<std::uint64_t>(index);
  if (source.share != source.windows) {
    const auto windows = static_cast<std::uint64_t>(source.windows);
    const std::uint64_t given = key.epoch * static_cast<std::uint64_t>(source.share) + window;
    pass = given / windows;
    window =
        random::permuted(random::stream_key(key.seed, stream("data pass", number), pass), windows, given % windows);
  }
  const std::int64_t shifts = std::min(context_, source.training.size - source.windows * context_);
  const std::uint64_t shift_key = random::stream_key(key.seed, stream("data shift", number), pass);
  const auto shift = static_cast<std::int64_t>(random::below(shift_key, 0, static_cast<std::uint64_t>(shifts)));
  return source.training.begin + shift + static_cast<std::int64_t>(window) * context_;
}

}  // namespace datasets
