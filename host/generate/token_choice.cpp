#include "generate/token_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "strata/error.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The tokens that may be chosen, with their probabilities but for a common factor.
class Candidates {
  [[nodiscard]] double logit(std::int32_t token) const { return logits_[static_cast<std::size_t>(token)]; }

  /// Likelier tokens first.
  [[nodiscard]] auto order() const {
    return [this](std::int32_t a, std::int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; };
  }

 public:
  Candidates(std::span<const double> logits, double temperature)
      : logits_(logits), temperature_(temperature), tokens_(logits.size()) {
    std::iota(tokens_.begin(), tokens_.end(), 0);
  }

  [[nodiscard]] std::int32_t likeliest() const { return *std::min_element(tokens_.begin(), tokens_.end(), order()); }

  void keep_likeliest(std::int64_t count) {
    if (count <= 0 || count >= std::ssize(tokens_)) return;
    std::nth_element(tokens_.begin(), tokens_.begin() + count - 1, tokens_.end(), order());
    tokens_.resize(static_cast<std::size_t>(count));
    std::sort(tokens_.begin(), tokens_.end());
  }

  /// Keeps the fewest likeliest tokens that have this share of the probability.
  void keep_share(double share) {
    if (share >= 1) return;
    std::sort(tokens_.begin(), tokens_.end(), order());
    const std::vector<double> sums = cumulative();
    const auto enough = std::lower_bound(sums.begin(), sums.end() - 1, share * sums.back());
    tokens_.resize(static_cast<std::size_t>(enough - sums.begin()) + 1);
    std::sort(tokens_.begin(), tokens_.end());
  }

  /// The token at a share of the probability, from 0 to below 1.
  [[nodiscard]] std::int32_t at(double share) const {
    const std::vector<double> sums = cumulative();
    const auto found = std::upper_bound(sums.begin(), sums.end() - 1, share * sums.back());
    return tokens_[static_cast<std::size_t>(found - sums.begin())];
  }

 private:
  [[nodiscard]] std::vector<double> cumulative() const {
    double largest = logit(tokens_.front());
    for (const std::int32_t token : tokens_) largest = std::max(largest, logit(token));
    std::vector<double> sums;
    sums.reserve(tokens_.size());
    double sum = 0;
    for (const std::int32_t token : tokens_) sums.push_back(sum += std::exp((logit(token) - largest) / temperature_));
    return sums;
  }

  std::span<const double> logits_;
  double temperature_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

std::int32_t choose_token(std::span<const double> logits, const SamplingSettings& settings, std::uint64_t index) {
  // A model may rule tokens out by -inf, but not all of them.
  const auto is_impossible = [](double logit) { return std::isnan(logit) || logit == kInfinity; };
  const bool has_impossible = std::any_of(logits.begin(), logits.end(), is_impossible);
  if (has_impossible || *std::max_element(logits.begin(), logits.end()) == -kInfinity) {
    throw RuntimeError("the model's logits are not finite; has its training diverged?");
  }
  Candidates candidates(logits, settings.temperature);
  if (settings.temperature == 0) return candidates.likeliest();
  candidates.keep_likeliest(settings.top_k);
  candidates.keep_share(settings.top_p);
  const auto words = random::philox4x32(random::stream_key(settings.seed, "generation", 0), index);
  return candidates.at((static_cast<double>(words[0]) + static_cast<double>(words[1]) * 0x1p-32) * 0x1p-32);
}

}  // namespace strata::host
