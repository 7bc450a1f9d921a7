#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"

namespace strata::host {

/// The communication and transfers of a rank that are in flight: started, but not waited for. The verifiers use it.
/// Collectives of a rank run in the order in which they start, so a wait for one completes all before it. A message or
/// transfer is completed only by its own wait.
class CommunicationInFlight {
 public:
  /// Notes that `instruction` has started for `micro_batch`. `description`: called if it is in conflict with another.
  void start(const Instruction& instruction, int micro_batch, const BufferRanges& ranges,
             std::function<std::string()> description);
  /// Completes the communication that uses any byte of `range`, and collectives that started before it.
  void wait(const ByteRange& range);
  /// Describes a communication in flight that forbids the access: any that writes `range`, and for a write also any
  /// that reads it. An access by a collective never conflicts with a collective, because they run in order. Empty if
  /// there is no conflict.
  [[nodiscard]] std::optional<std::string> conflict(const ByteRange& range, bool write,
                                                    bool by_collective = false) const;

 private:
  /// Bytes that a communication in flight reads or writes.
  struct Use {
    ByteRange range;
    bool written = false;
  };
  struct Entry {
    std::function<std::string()> description;
    bool is_collective = true;
    std::vector<Use> uses;
  };

  void end(std::uint64_t number);

  std::uint64_t next_ = 0;
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::deque<std::uint64_t> collectives_;
  std::unordered_map<std::int64_t, std::vector<std::uint64_t>> by_instance_;
};

}  // namespace strata::host
