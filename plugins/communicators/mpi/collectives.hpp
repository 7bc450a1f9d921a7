#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "active_operation.hpp"
#include "control.hpp"
#include "work.hpp"

namespace strata::mpi {

/// The collectives of one rank in progress. A collective first tells the members of its group that this rank takes
/// part, and how. It moves data when all members have said the same. One thread uses it.
class Collectives {
 public:
  Collectives(Fabric& fabric, std::chrono::duration<double> timeout, Finish finish)
      : fabric_(fabric), timeout_(timeout), finish_(std::move(finish)) {}

  void add(OperationPointer operation);
  void arrived(int from, Control control);
  /// A member that leaves takes part in nothing more. If it left `broken`, its transfers may not end either.
  void peer_left(int rank, bool broken);
  /// Begins what may begin, and reports what has ended or failed. \return true if there was something.
  bool advance(Clock::time_point now);
  /// Fails everything, also what has not begun.
  void fail_all(const FaultOf& fault);
  /// Ends everything at once, without MPI.
  void abandon_all(const FaultOf& fault);

  [[nodiscard]] bool idle() const { return active_.empty(); }
  /// True if a collective has all members, so that data moves.
  [[nodiscard]] bool moves_data() const { return moving_ > 0; }
  /// The collective in which another rank waits for this one, in words. Empty if it waits in none that is known.
  [[nodiscard]] std::string awaited_by(int rank) const;

 private:
  /// Names a collective on all ranks: the group and the number in the group.
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  /// Messages of members that have arrived, by their position in the group.
  using Arrivals = std::map<int, Control>;

  struct Active : ActiveOperation {
    using ActiveOperation::ActiveOperation;

    std::unique_ptr<Work> work;
    Clock::time_point since;  ///< when it was begun
    Arrivals arrivals;
    bool begun = false;
    bool runs = false;
  };

  [[nodiscard]] static Key key_of(const Operation& operation);
  [[nodiscard]] bool may_begin(std::list<Active>::const_iterator place) const;
  void begin(Active& active);
  void take(Active& active, int from, Control control);
  void run_if_all_arrived(Active& active);
  void check_time(Active& active, Clock::time_point now);
  [[nodiscard]] std::string describe_missing(const Active& active) const;

  Fabric& fabric_;
  std::chrono::duration<double> timeout_;
  Finish finish_;
  std::list<Active> active_;
  /// Arrivals of members at collectives that this rank has not begun, with the sender.
  std::map<Key, std::vector<std::pair<int, Control>>> early_;
  std::set<int> left_;
  int moving_ = 0;
  bool changed_ = false;
};

}  // namespace strata::mpi
