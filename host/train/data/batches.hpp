#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor.hpp"
#include "train/data/corpus.hpp"
#include "train/data/sampling.hpp"

namespace strata::host {

/// Serves "tokens", "targets" (the next token of each token) and "positions" from windows of a corpus. The derived
/// class maps samples to windows.
class WindowBatches : public InputSource {
 public:
  void load(const std::string& name, std::uint64_t step, const std::vector<IndexMap>& dims,
            std::int32_t* destination) final;

 protected:
  WindowBatches(const Corpus& corpus, TokenRange range) : corpus_(corpus), range_(range) {}
  /// Index, within the range, of the first token of a sample's window. Empty for a sample without targets.
  [[nodiscard]] virtual std::optional<std::int64_t> window_begin(std::uint64_t step, std::int64_t sample) const = 0;

 private:
  const Corpus& corpus_;
  TokenRange range_;
};

/// The position of a run in its data.
struct DataPosition {
  std::uint64_t step = 0;
  /// Samples consumed by all steps before `step`.
  std::uint64_t samples = 0;
};

/// Random windows, each once per epoch. The samples of a step do not depend on ranks or micro-batches.
class TrainingBatches : public WindowBatches {
 public:
  TrainingBatches(const Corpus& corpus, EpochSampler sampler, std::int64_t global_batch, DataPosition start)
      : WindowBatches(corpus, corpus.training()), sampler_(sampler), global_batch_(global_batch), start_(start) {}

  /// Samples consumed before `step`.
  [[nodiscard]] std::uint64_t samples_before(std::uint64_t step) const;

 protected:
  std::optional<std::int64_t> window_begin(std::uint64_t step, std::int64_t sample) const override;

 private:
  EpochSampler sampler_;
  std::int64_t global_batch_;
  DataPosition start_;
};

/// The windows of the validation part in order. Samples after the last window have no targets.
class ValidationBatches : public WindowBatches {
 public:
  ValidationBatches(const Corpus& corpus, std::int64_t context, std::int64_t global_batch)
      : WindowBatches(corpus, corpus.validation()),
        context_(context),
        global_batch_(global_batch),
        windows_((corpus.validation().size - 1) / context) {}

  /// Number of batches that contain at least one window.
  [[nodiscard]] std::int64_t batches() const { return (windows_ + global_batch_ - 1) / global_batch_; }

 protected:
  std::optional<std::int64_t> window_begin(std::uint64_t step, std::int64_t sample) const override;

 private:
  std::int64_t context_;
  std::int64_t global_batch_;
  std::int64_t windows_;
};

}  // namespace strata::host
