#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "compiler/compile.hpp"
#include "data/data_source.hpp"
#include "runtime/executor.hpp"
#include "strata/dataset.hpp"
#include "strata/layout.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// The part of a step's data that the ranks of this process load.
struct BatchNeeds {
  /// By input of the dataset: true if a rank loads it.
  std::vector<bool> inputs;
  /// Samples within the step's batch, ascending.
  std::vector<std::int64_t> samples;
};

/// Collects what the programs of `ranks` load.
[[nodiscard]] BatchNeeds batch_needs(const Compiled& compiled, const std::vector<int>& ranks,
                                     const std::vector<DatasetInput>& inputs);

/// The samples of one step that this process needs, in the order of BatchNeeds::samples, by input. Inputs that are not
/// needed or that all samples share have no values here.
struct Batch {
  std::vector<std::vector<std::byte>> values;
};

/// Some samples of a step's batch, as positions in BatchNeeds::samples.
struct BatchPart {
  std::uint64_t step = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Reads batches, and copies the ranks' parts of them. Thread-safe.
class BatchReader {
 public:
  /// The key of a sample of a step. Empty for a sample that only fills up the last batch.
  using FindSample = std::function<std::optional<SampleKey>(std::uint64_t step, std::int64_t sample)>;

  /// `source` outlives the reader. `sizes`: the sizes of all dimensions of its inputs.
  BatchReader(const DataSource& source, const DimSizes& sizes, BatchNeeds needs, FindSample find);

  /// Bytes of one batch.
  [[nodiscard]] std::int64_t batch_bytes() const;
  /// Samples of one batch.
  [[nodiscard]] std::size_t batch_samples() const { return needs_.samples.size(); }
  /// Gives `batch` memory for the samples of a step.
  void reserve(Batch& batch) const;
  /// Reads samples into a batch that has memory for them. \throws RuntimeError if that fails, or if an integer lies
  /// outside of the dimension that it indexes.
  void read(const BatchPart& samples, Batch& batch) const;
  /// Copies one rank's part of a batch, as InputSource::load() says.
  void load(const Batch& batch, const InputPart& part) const;

 private:
  struct Layout {
    /// Elements of one sample.
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
    /// Integers are below this.
    std::int64_t limit = 0;
  };

  void fill(Batch& batch, std::size_t row) const;
  void require_in_range(std::size_t input, std::span<const std::byte> values) const;
  [[nodiscard]] std::int64_t row_of(std::int64_t sample) const;

  const DataSource& source_;
  BatchNeeds needs_;
  FindSample find_;
  std::vector<Layout> layouts_;
  /// Values of the inputs that all samples share.
  std::vector<std::vector<std::byte>> common_;
};

/// How far threads read ahead.
struct ReadAheadSettings {
  std::uint64_t first_step = 0;
  /// Number of ranks that use every batch.
  int ranks = 1;
  /// Number of threads that read.
  int threads = 1;
  /// Limit of the memory of all batches. Two batches are kept in any case: one in use, one being read.
  std::int64_t bytes = std::int64_t{256} << 20;
  /// Limit of the number of batches.
  int batches = 4;
};

/// Serves the batches of consecutive steps, which threads of its own read before they are needed. The threads share the
/// samples of a batch. All ranks of a process share one object. Each of them calls wait(), runs the step, and calls
/// release().
class ReadAhead final : public InputSource {
 public:
  /// The result of wait().
  struct Outcome {
    double wait_seconds = 0;
    /// Why the batch could not be read.
    std::optional<std::string> failure = std::nullopt;
  };

  /// Starts to read. `reader` outlives the object.
  ReadAhead(const BatchReader& reader, const ReadAheadSettings& settings);
  ~ReadAhead() override;

  /// Waits until the batch of `step` has been read, or it or an earlier one could not be read.
  [[nodiscard]] Outcome wait(std::uint64_t step);
  /// Gives back the batch of `step`. Once all ranks have, its memory serves a later step.
  void release(std::uint64_t step);
  void load(const InputPart& part, std::uint64_t step) override;

 private:
  struct Slot {
    Batch batch;
    std::uint64_t step = 0;
    /// Samples that threads have not read yet.
    std::size_t unread = 0;
    int releases = 0;
  };

  void read_all();
  /// The samples that a thread reads next, once there is memory for them; none if reading has ended.
  [[nodiscard]] std::optional<BatchPart> take_part();
  [[nodiscard]] Slot& slot(std::uint64_t step) { return slots_[step % slots_.size()]; }

  const BatchReader& reader_;
  int ranks_;
  /// Number of samples that a thread takes at a time.
  std::size_t share_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ended_ = false;
  /// The first samples that no thread has taken.
  std::uint64_t next_step_;
  std::size_t next_sample_ = 0;
  /// Why the batch of `failed_step_` could not be read. No later one is read.
  std::optional<std::string> failure_;
  std::uint64_t failed_step_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace strata::host
