#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operation.hpp"

namespace strata::local {

/// A collective in progress. The ranks of the group pass its stages together: a rank starts stage s when all have
/// arrived at s, and no rank leaves while a peer may still access its buffers.
struct Meeting {
  explicit Meeting(std::shared_ptr<const Group> members);

  std::shared_ptr<const Group> group;
  /// Operations by position in the group; null if the rank has not arrived.
  std::vector<OperationPointer> seats;
  /// Number of stages at which each rank has arrived; 0: the rank has not arrived at all.
  std::vector<int> arrived;
  /// Number of ranks within a stage, which read their peers' buffers.
  int working = 0;
  /// Why the collective failed, without the name of the rank that reports it. Empty if it has not failed.
  std::string fault;

  [[nodiscard]] bool all_at(int stage) const;
};

/// The state of one rank that other ranks see.
struct RankState {
  /// Its worker waits for worker_changed. Threads that wait for its requests wait for request_changed.
  std::condition_variable worker_changed;
  std::condition_variable request_changed;
  bool connected = false;
  bool left = false;
  /// The collective that the worker is in, and its meeting.
  OperationPointer collective;
  std::shared_ptr<Meeting> meeting;
  /// Receives that have been posted and not yet matched.
  std::vector<OperationPointer> receives;
  /// A send that a thread is waiting for, for error messages.
  OperationPointer awaited_send;
  /// Number of peers that are reading one of the rank's sends.
  int readers = 0;
};

/// The shared state of all ranks of a world. One mutex guards everything. It is held for look-ups only, and never while
/// data is copied.
class SharedState {
 public:
  SharedState(int rank_count, std::chrono::duration<double> timeout);

  std::mutex mutex;

  [[nodiscard]] int rank_count() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Clock::time_point deadline() const;
  [[nodiscard]] std::string timeout_text() const;

  // Callers of the functions below hold the mutex.

  [[nodiscard]] RankState& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  /// The group of these ranks in this order, which is created on first use.
  [[nodiscard]] std::shared_ptr<const Group> group(const std::vector<int>& ranks);

  /// Adds `operation` to its meeting. If the ranks' calls differ, the meeting fails.
  [[nodiscard]] std::shared_ptr<Meeting> arrive(const OperationPointer& operation);
  /// Records that a rank has reached the next stage. The last rank at the last stage closes the meeting.
  void advance(Meeting& meeting, int index, int last_stage);
  /// Ends the meeting with an error on all its ranks.
  void fail(Meeting& meeting, const std::string& fault);
  void wake_members(const Meeting& meeting);

  /// Makes a send available to its receiver.
  void post(const OperationPointer& send);
  /// The oldest posted send that matches `receive`, or null.
  [[nodiscard]] OperationPointer take(const Operation& receive);
  /// Withdraws the sends of a rank that no peer is reading: all of them, or only `only`.
  void withdraw(int rank, const Operation* only);
  void finish(const OperationPointer& operation, std::optional<Fault> fault = std::nullopt);

  void abort(const std::string& reason);
  [[nodiscard]] const std::optional<std::string>& abort_reason() const { return abort_reason_; }
  /// The error of `operation` after an abort.
  [[nodiscard]] Fault aborted(const Operation& operation) const;

  /// A rank in words: "rank 2, which waits in all_gather 'x' (id 3)".
  [[nodiscard]] std::string describe_rank(int rank) const;
  /// Why `operation` can never complete: a peer has left, or waits for this rank in another operation. Empty if it can.
  [[nodiscard]] std::string find_dead_end(const Operation& operation, const Meeting& meeting, int stage);

 private:
  using MessageKey = std::tuple<int, int, std::uint64_t>;  // from, to, id

  std::chrono::duration<double> timeout_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::map<std::vector<int>, std::shared_ptr<const Group>> groups_;
  std::map<std::pair<int, std::uint64_t>, std::shared_ptr<Meeting>> meetings_;
  std::map<MessageKey, std::deque<OperationPointer>> sends_;
  std::optional<std::string> abort_reason_;
};

}  // namespace strata::local
