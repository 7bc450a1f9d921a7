#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"

namespace strata::host {

/// True for instructions that meet other ranks.
[[nodiscard]] bool is_communication(const Instruction& instruction);
/// True for instructions that run beside what follows them until they are waited for: communication and transfers.
[[nodiscard]] bool is_asynchronous(const Instruction& instruction);
/// Behind the last of `instructions` that runs beside what follows: from there on they wait for it.
[[nodiscard]] std::vector<Instruction>::const_iterator behind_last_asynchronous(
    const std::vector<Instruction>& instructions);

/// The communication and the transfers that a rank has started and not waited for, for the verifiers. Collectives of a
/// rank run in the order in which they start, so a wait for one ends those before it too; a message or transfer ends by
/// its own wait only.
class CommunicationUnderWay {
 public:
  /// Bytes that a communication reads or writes.
  struct Use {
    ByteRange range;
    bool written = false;
  };

  void start(std::string description, bool is_collective, std::vector<Use> uses);
  /// Ends the communication that uses any byte of `range`, and what that implies.
  void wait(const ByteRange& range);
  /// The communication under way that forbids touching `range`: any that writes it, and for a write also any that reads
  /// it. A collective need not wait for other collectives. Null if there is none.
  [[nodiscard]] const std::string* conflict(const ByteRange& range, bool write, bool by_collective = false) const;

 private:
  struct Entry {
    std::string description;
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
