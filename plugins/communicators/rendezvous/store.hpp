#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace strata::rendezvous {

using Clock = std::chrono::steady_clock;

/// The failure that ended a run.
struct Failure {
  /// The rank that failed first.
  int rank = 0;
  std::string reason;
};

/// A key-value store through which the ranks of a run exchange small values and failures. Thread-safe.
class Store {
 public:
  virtual ~Store();

  /// Stores a value until `readers` ranks have taken it.
  virtual void put(const std::string& key, const std::string& value, int readers) = 0;
  /// Takes a value, and waits for it if necessary. Every reader takes a value once. \return empty if it was not stored
  /// until `deadline`, or if the run has failed or ended.
  [[nodiscard]] virtual std::optional<std::string> take(const std::string& key, Clock::time_point deadline) = 0;

  /// Reports to all ranks that `rank` has failed. The first failure is kept.
  virtual void fail(int rank, const std::string& reason) noexcept = 0;
  [[nodiscard]] virtual std::optional<Failure> failure() const = 0;
};

/// What a process that leaves before `rank` has connected tells the others: the exception that it is handling, if any.
[[nodiscard]] std::string leaving_text(int rank);

/// A store in the memory of this process.
class Board final : public Store {
 public:
  void put(const std::string& key, const std::string& value, int readers) override;
  [[nodiscard]] std::optional<std::string> take(const std::string& key, Clock::time_point deadline) override;
  void fail(int rank, const std::string& reason) noexcept override;
  [[nodiscard]] std::optional<Failure> failure() const override;

  /// True if every value has been taken.
  [[nodiscard]] bool is_empty() const;
  /// `listener` is called after every change, on any thread, without a lock held.
  void set_listener(std::function<void()> listener);

 private:
  struct Entry {
    std::string value;
    int readers = 0;
  };

  void tell() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry> entries_;
  std::optional<Failure> failure_;
  std::function<void()> listener_;
};

}  // namespace strata::rendezvous
