#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <utility>

#include "active_operation.hpp"
#include "control.hpp"

namespace strata::mpi {

/// The messages of one rank. A sender announces a message. Short ones travel with the announcement. Of a long one the
/// receiver asks for the data once it has memory for it. A send ends when it is received, so both ends learn if their
/// lengths differ. Receives match announcements by id, in the order in which they
/// were sent. One thread uses it.
class Messages {
 public:
  Messages(Fabric& fabric, std::chrono::duration<double> timeout, Finish finish)
      : fabric_(fabric), timeout_(timeout), finish_(std::move(finish)) {}

  void add(const OperationPointer& operation);
  void announced(int from, Control control);
  /// The receiver of a send takes its data, or refuses it.
  void granted(const Control& control);
  void refused(const Control& control);
  /// As Collectives::peer_left().
  void peer_left(int rank, bool broken);
  /// Reports what has ended or failed. \return true if there was something.
  bool advance(Clock::time_point now);
  /// As in Collectives.
  void fail_all(const FaultOf& fault);
  void abandon_all(const FaultOf& fault);

  [[nodiscard]] bool idle() const { return active_.empty(); }

 private:
  /// Peer and id.
  using Key = std::pair<int, std::uint64_t>;

  struct Active : ActiveOperation {
    using ActiveOperation::ActiveOperation;

    std::uint64_t number = 0;
    Clock::time_point since;  ///< when it was started
    bool is_short = false;    ///< a send whose data travels with the announcement
    bool matched = false;
    bool complete = false;
  };

  void begin_send(Active& active);
  void check_time(Active& active, Clock::time_point now);
  void match(Active& active, const Control& announcement);
  /// The receive that has waited for this key for the longest time, or null.
  [[nodiscard]] Active* find_receive(const Key& key);
  [[nodiscard]] Active* find_send(std::uint64_t number);

  Fabric& fabric_;
  std::chrono::duration<double> timeout_;
  Finish finish_;
  std::list<Active> active_;
  std::map<Key, std::deque<Control>> announcements_;
  std::set<int> left_;
  std::uint64_t sends_ = 0;
};

}  // namespace strata::mpi
