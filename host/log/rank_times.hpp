#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::host {

/// How long each rank took for a step, in seconds, by rank. The meanings are those of StepRecord.
struct RankTimes {
  /// Completed steps, including this one.
  std::uint64_t step = 0;
  std::vector<double> seconds;
  std::vector<double> wait_seconds;
  std::vector<double> data_wait_seconds;

  /// The time in which a rank did not wait for others: its own work and its data.
  [[nodiscard]] double own_seconds(std::size_t rank) const { return seconds[rank] - wait_seconds[rank]; }
};

/// A rank's times of a step as numbers for Agreement::largest(), which makes them those of all ranks.
class RankTimeValues {
 public:
  explicit RankTimeValues(int ranks) : values_(kTimes * static_cast<std::size_t>(ranks)) {}
  [[nodiscard]] static std::int64_t count(int ranks) { return static_cast<std::int64_t>(kTimes) * ranks; }

  /// Sets the times of `rank`, and forgets those of the others.
  void set(int rank, double seconds, double wait_seconds, double data_wait_seconds);
  [[nodiscard]] std::vector<double>& values() { return values_; }
  [[nodiscard]] RankTimes times(std::uint64_t step) const;

 private:
  static constexpr std::size_t kTimes = 3;
  std::vector<double> values_;
};

/// Finds ranks that are slower than the others for many steps. A rank is slow in a step if its own time is 1.2 times
/// the median of the other ranks, or more. So of two ranks, one is slow if it takes 1.2 times as long as the other.
class Stragglers {
 public:
  static constexpr double kRatio = 1.2;
  static constexpr int kSteps = 20;

  /// \return one sentence for each rank that has been slow for 20 steps in a row, and for each that was, and has kept
  /// up with the others for 20.
  [[nodiscard]] std::vector<std::string> note(const RankTimes& times);

 private:
  struct Streak {
    bool is_slow = false;
    /// Steps in a row that say otherwise, and the sums of their times.
    int steps = 0;
    double own_seconds = 0;
    double other_seconds = 0;
    double data_wait_seconds = 0;
  };

  std::vector<Streak> streaks_;
};

}  // namespace strata::host
