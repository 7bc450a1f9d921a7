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

/// The ranks of a group at one collective. They pass its stages together: a rank starts stage s when all have arrived
/// at it, and nobody leaves while a peer may still touch its buffers.
struct Meeting {
  explicit Meeting(std::shared_ptr<const Group> members);

  std::shared_ptr<const Group> group;
  /// By position in the group; null where the rank is not there yet.
  std::vector<OperationPointer> seats;
  /// Stages that each rank has arrived at; 0: not there.
  std::vector<int> arrived;
  /// Ranks inside a stage, reading their peers.
  int working = 0;
  /// Why the collective failed, without the rank that says so; empty while it has not.
  std::string fault;

  [[nodiscard]] bool all_at(int stage) const;
};

/// What one rank shows to the others.
struct RankState {
  /// Its worker waits here, and the threads that wait for its requests.
  std::condition_variable worker_changed;
  std::condition_variable request_changed;
  bool connected = false;
  bool left = false;
  /// The collective that its worker is in, and where.
  OperationPointer collective;
  std::shared_ptr<Meeting> meeting;
  /// Posted and not yet matched.
  std::vector<OperationPointer> receives;
  /// The send that somebody waits for, for messages.
  OperationPointer awaited_send;
  /// Peers that are reading one of its sends.
  int readers = 0;
};

/// Where all ranks of a world meet. Everything is guarded by one mutex, held for look-ups only, never while data moves.
class SharedState {
 public:
  SharedState(int rank_count, std::chrono::duration<double> timeout);

  std::mutex mutex;

  [[nodiscard]] int rank_count() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Clock::time_point deadline() const;
  [[nodiscard]] std::string timeout_text() const;

  // All that follow are called with the mutex held.

  [[nodiscard]] RankState& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  /// The group of these ranks in this order, made when it is first asked for.
  [[nodiscard]] std::shared_ptr<const Group> group(const std::vector<int>& ranks);

  /// Seats `operation` in its meeting, which becomes faulty if the ranks do not mean the same.
  [[nodiscard]] std::shared_ptr<Meeting> arrive(const OperationPointer& operation);
  /// Says that a rank has reached the next stage. The last one at the last stage closes the meeting.
  void advance(Meeting& meeting, int index, int last_stage);
  /// Ends the meeting for everyone in it.
  void fail(Meeting& meeting, const std::string& fault);
  void wake_members(const Meeting& meeting);

  /// Makes a send visible to its receiver.
  void post(const OperationPointer& send);
  /// The oldest posted send that `receive` asks for; null if there is none.
  [[nodiscard]] OperationPointer take(const Operation& receive);
  /// Takes back the sends of a rank that nobody reads (all of them, or only one).
  void withdraw(int rank, const Operation* only);
  void finish(const OperationPointer& operation, std::optional<Fault> fault = std::nullopt);

  void abort(const std::string& reason);
  [[nodiscard]] const std::optional<std::string>& abort_reason() const { return abort_reason_; }
  /// The fault with which `operation` ends after an abort.
  [[nodiscard]] Fault aborted(const Operation& operation) const;

  /// "rank 2, which waits in all_gather 'x' (id 3)".
  [[nodiscard]] std::string describe_rank(int rank) const;
  /// Why `operation` can never complete, empty as long as it can: a peer has left, or waits for this rank elsewhere.
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
