#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/operation.hpp"
#include "collectives/transport.hpp"

namespace strata::communicators {

/// A peer has sent or received nothing until the deadline. Endpoint::perform() makes an error of it.
struct Late {
  int peer = 0;
};

/// The transport of one rank, with the errors that end its waits: time limits, failures of ranks and of collectives,
/// and ranks that have left.
class Endpoint {
 public:
  Endpoint(std::unique_ptr<Transport> transport, int rank, std::chrono::duration<double> timeout)
      : transport_(std::move(transport)), rank_(rank), timeout_(timeout) {}

  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] Clock::time_point deadline() const;

  /// Runs `work` for an operation. \throws AbortedError if a rank has ended the run. \throws RuntimeError if the
  /// operation fails; the other members of a collective then fail too.
  void perform(const TransportOperation& operation, const std::function<void()>& work);
  /// Waits for the peer's end of a transfer. \throws Late after the deadline. \throws RuntimeError if the message
  /// cannot come any more.
  void await(const TransportOperation& operation, Transfer& transfer, int peer, Clock::time_point deadline);
  /// Why an operation has failed that waited in vain: "waited 300 s for rank 2, which did not take part".
  [[nodiscard]] std::string describe_missing(const std::vector<int>& peers, const std::string& fault);

  /// Ends the run on all ranks, because code outside of the communicator failed on this one.
  void abort(const std::string& reason) noexcept;
  /// Tells the others that this rank takes part in nothing any more. `is_unfinished`: true if communication of the rank
  /// has not ended, which then fails.
  void leave(bool is_unfinished) noexcept;
  /// True if a rank has ended the run.
  [[nodiscard]] bool has_ended();
  /// \throws what ended the run, if something has. `operation`: what it stops, or null.
  void check(const TransportOperation* operation = nullptr);

 private:
  /// Reads the notices of the others.
  void look();
  /// \throws why `operation` cannot end well, if that is known.
  void require_hope(const TransportOperation& operation);
  /// Returns when a failure of the run is known, or after some seconds without one.
  void wait_for_the_cause();
  /// As Transfer::await(). \throws RuntimeError for a lost connection.
  bool move(Transfer& transfer, int peer, Clock::time_point deadline);
  [[nodiscard]] bool has_left(int peer);

  std::unique_ptr<Transport> transport_;
  int rank_;
  std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  /// The first failure of a rank.
  std::optional<Notice> failure_;
  /// The first error of this rank's own communication.
  std::optional<std::string> own_error_;
  /// By slot.
  std::map<Slot, Notice> faults_;
  /// Descriptions of operations, by the rank that waits in them.
  std::map<int, std::string> waiting_;
  std::set<int> left_;
};

}  // namespace strata::communicators
