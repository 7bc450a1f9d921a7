#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include "store.hpp"

namespace strata::rendezvous {

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
