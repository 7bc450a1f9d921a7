#pragma once

#include <boost/functional/hash.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "compiler/program/communication_trace.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// An order in which all ranks together can execute a step: the moment of every instruction if each takes one unit of
/// time, a receive and a collective begin when all that they need is there, and a wait for a send ends when the message
/// is received. Along every dependency between ranks the moment grows. So a further wait for a send at a later moment
/// than its receive cannot cause a deadlock.
///
/// One rank stands for its class. If ranks of a class communicate in ways in which their representative does not, the
/// step may not end here, although it does on the ranks.
class StepClock {
 public:
  /// The steps like `step`. The programs outlive the clock.
  StepClock(const std::vector<Program>& programs, const std::vector<int>& class_of_rank, std::uint64_t step);

  /// False if some class cannot go on, so that nothing is known.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  [[nodiscard]] const CommunicationTrace& trace(std::size_t program) const { return classes_[program].trace; }
  /// Moment of the instruction with number `ordinal` among those that the class executes in the step.
  [[nodiscard]] std::int64_t moment(std::size_t program, std::int64_t ordinal) const;
  /// The class of the other end of a message, an index into the trace's steps.
  [[nodiscard]] int peer(std::size_t program, std::size_t message) const;
  /// Moment at which the last receiver takes the message of a send, an index into the trace's steps. Empty if no rank
  /// receives it.
  [[nodiscard]] std::optional<std::int64_t> received(std::size_t program, std::size_t send) const;

 private:
  struct Class {
    CommunicationTrace trace;
    std::size_t position = 0;
    /// The class of the peer, or the classes of the group, for each of CommunicationTrace::counterparts.
    std::vector<std::vector<int>> counterparts;
    std::vector<std::int64_t> moments;  ///< of the trace's steps so far
    /// By step of the trace: the moment at which the last receiver took the message of that step; -1: none has.
    std::vector<std::int64_t> received;
  };
  /// Sender's class, receiver's class, id, micro-batch.
  using MessageKey = std::tuple<int, int, std::uint64_t, int>;
  struct Message {
    std::int64_t moment = 0;
    std::size_t step = 0;
  };

  void resolve_counterparts(int number, const Mesh& mesh, const std::vector<int>& class_of_rank);
  void run();
  bool advance(int number);
  bool collective(int number, const TracedCommunication& step, std::int64_t moment);
  void pass(int number, std::int64_t moment);
  [[nodiscard]] Class& at(int number) { return classes_[static_cast<std::size_t>(number)]; }

  std::vector<Class> classes_;
  std::unordered_map<MessageKey, Message, boost::hash<MessageKey>> messages_;
  /// The classes that have arrived at a collective, by its members, id and micro-batch.
  std::map<std::tuple<std::vector<int>, std::uint64_t, int>, std::map<int, std::int64_t>> arrived_;
  std::deque<int> ready_;
  bool has_ended_ = false;
};

}  // namespace strata::host
