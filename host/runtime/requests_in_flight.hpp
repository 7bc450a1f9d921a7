#pragma once

#include <memory>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"
#include "strata/communicator.hpp"

namespace strata::host {

/// The communication and transfers that a rank has in flight. A transfer counts as a message.
class RequestsInFlight {
 public:
  /// Adds a request that reads or writes `ranges`.
  void add(std::unique_ptr<Request> request, bool is_collective, std::vector<ByteRange> ranges);

  /// Waits for requests that use any byte of `range`. If one is a collective, also waits for all collectives that were
  /// started before it, each by its own request. The compiler relies on this: its verifier, lifetimes and waits assume
  /// that the wait for one collective also ends all earlier ones, even those of other groups. The communicator does not
  /// guarantee it, because collectives of different groups may run concurrently (strata/communicator.hpp).
  void wait(const ByteRange& range);
  void wait_for_all();
  /// After a failure: returns when no request accesses this rank's memory any more. Ignores the requests' errors.
  void drain() noexcept;

  /// Seconds of waiting since reset_seconds().
  [[nodiscard]] double seconds() const { return seconds_; }
  void reset_seconds() { seconds_ = 0; }

 private:
  struct Entry {
    std::unique_ptr<Request> request;
    bool is_collective = true;
    std::vector<ByteRange> ranges;

    [[nodiscard]] bool uses(const ByteRange& range) const;
  };

  void finish(std::size_t index);

  std::vector<Entry> entries_;
  double seconds_ = 0;
};

}  // namespace strata::host
