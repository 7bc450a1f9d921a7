#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/dataset.hpp"

namespace datasets {

/// A run of tokens of a source.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

/// The first tokens of a source for training, and the last of them, a share of `validation`, for validation.
struct TokenSplit {
  TokenRange training;
  TokenRange validation;
};

[[nodiscard]] TokenSplit split_tokens(std::int64_t tokens, double validation);

/// A window of tokens.
struct Window {
  std::size_t source = 0;
  std::int64_t begin = 0;
  /// Its first tokens that another window has. Their targets do not count again.
  std::int64_t repeated = 0;
};

/// Cuts sources into windows of `context` tokens, each followed by the target of its last token.
///
/// Training: the windows of a source form a grid, which starts at another token in each pass over the source, so
/// windows differ from pass to pass. An epoch has as many windows as the grids of all sources. Each source gives its
/// share of them. Without weights, the share is its own number of windows, so an epoch is one pass over every source.
/// With weights, a source gives the windows of pass 0 in random order, then those of pass 1, and so on, through all
/// epochs.
///
/// Validation: the windows of all sources in order, without overlap. The last one of a source ends with the source, so
/// every token but the first is a target once.
class TokenWindows {
 public:
  /// One split and one weight per source. `weights`: empty, or the shares of the sources.
  TokenWindows(const std::vector<TokenSplit>& splits, std::int64_t context, const std::vector<double>& weights);

  [[nodiscard]] std::int64_t samples(strata::DataSplit split) const;
  [[nodiscard]] Window find(const strata::SampleKey& key) const;

 private:
  struct Source {
    TokenRange training;
    TokenRange validation;
    /// Windows of one pass, windows in an epoch, and windows of validation.
    std::int64_t windows = 0;
    std::int64_t share = 0;
    std::int64_t validation_windows = 0;
  };

  void deal(const std::vector<double>& weights);
  [[nodiscard]] std::int64_t training_begin(std::size_t source, std::int64_t index, const strata::SampleKey& key) const;

  std::int64_t context_;
  std::vector<Source> sources_;
};

}  // namespace datasets
