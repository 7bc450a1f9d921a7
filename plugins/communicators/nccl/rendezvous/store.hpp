#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace strata::rendezvous {

using Clock = std::chrono::steady_clock;

/// What ended a run before its time.
struct Failure {
  /// The rank that failed first.
  int rank = 0;
  std::string reason;
};

/// Where the ranks of a run leave small values for each other, and hear of each other's failures. Safe to use from
/// several threads.
class Store {
 public:
  virtual ~Store();

  /// Leaves a value under a key, until `readers` ranks have taken it.
  virtual void put(const std::string& key, const std::string& value, int readers) = 0;
  /// Takes the value, waiting for it. Every reader takes a value once. \return empty if it did not come until
  /// `deadline`, or will not come since the run has failed or ended.
  [[nodiscard]] virtual std::optional<std::string> take(const std::string& key, Clock::time_point deadline) = 0;

  /// Tells all ranks that `rank` has failed; the first failure counts.
  virtual void fail(int rank, const std::string& reason) noexcept = 0;
  [[nodiscard]] virtual std::optional<Failure> failure() const = 0;
};

}  // namespace strata::rendezvous
