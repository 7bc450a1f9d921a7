#pragma once

#include <memory>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"
#include "strata/communicator.hpp"

namespace strata::host {

/// The communication and the transfers that a rank has started and not waited for. A transfer is treated as a message.
class RequestsUnderWay {
 public:
  /// `ranges`: what it reads and writes.
  void add(std::unique_ptr<Request> request, bool is_collective, std::vector<ByteRange> ranges);

  /// Waits for what uses any byte of `range`. Collectives run in the order in which they were started, so the earlier
  /// ones are waited for as well.
  void wait(const ByteRange& range);
  /// Waits for messages only: what a collective about to start must not overtake.
  void wait_for_messages(const ByteRange& range);
  void wait_for_all();
  /// After a failure: returns when nothing touches this rank's memory any more, whatever the requests say.
  void drain() noexcept;

  /// Seconds spent in waiting since reset_seconds().
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
