#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/batch_reader.hpp"

namespace strata::host {

/// How far a thread reads ahead.
struct ReadAheadSettings {
  std::uint64_t first_step = 0;
  /// Number of threads that use every batch.
  int readers = 1;
  /// Limit of the memory of all batches. Two batches are kept in any case: one in use, one being read.
  std::int64_t bytes = std::int64_t{256} << 20;
  /// Limit of the number of batches.
  int batches = 4;
};

/// Serves the batches of consecutive steps, which a thread of its own reads before they are needed. All ranks of a
/// process share one. Each of them calls wait(), runs the step, and calls release().
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
  /// Gives back the batch of `step`. Once all readers have, its memory serves a later step.
  void release(std::uint64_t step);
  void load(const InputPart& part, std::uint64_t step) override;

 private:
  struct Slot {
    Batch batch;
    std::uint64_t step = 0;
    bool is_ready = false;
    int releases = 0;
  };

  void read_all(std::uint64_t first_step);
  [[nodiscard]] Slot& slot(std::uint64_t step) { return slots_[step % slots_.size()]; }

  const BatchReader& reader_;
  int readers_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ended_ = false;
  /// Why the batch of `failed_step_` could not be read. No later one is read.
  std::optional<std::string> failure_;
  std::uint64_t failed_step_ = 0;
  std::thread thread_;
};

}  // namespace strata::host
