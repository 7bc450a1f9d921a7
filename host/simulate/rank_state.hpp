#pragma once

#include <algorithm>
#include <boost/functional/hash.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulate/simulation.hpp"
#include "simulate/timed_schedule.hpp"

namespace strata::host {

/// An asynchronous instruction in flight.
struct InFlight {
  const TimedWork* work = nullptr;
  int micro_batch = -1;
  std::vector<ByteRange> ranges;
  double issued = 0;
  /// Collectives of other lanes that use the same memory, which come first.
  std::vector<std::shared_ptr<InFlight>> before;
  bool has_arrived = false;
  bool is_done = false;
  double ready = 0;  ///< when the last rank came to it
  double begin = 0;
  double end = 0;

  [[nodiscard]] bool is_collective() const { return work->kind == TimedWork::Kind::collective; }
  [[nodiscard]] bool uses(const ByteRange& range) const {
    return std::ranges::any_of(ranges, [&](const ByteRange& used) { return used.overlaps(range); });
  }
};
using Flight = std::shared_ptr<InFlight>;

/// A rank's class that has come to an instruction.
struct Arrival {
  int number = 0;
  Flight flight;
  double at = 0;
};

/// Brings sends and receives together, whichever comes first.
class MessageBoard {
 public:
  /// \return the receives that wait for the message.
  std::vector<Arrival> add_send(const Arrival& send) {
    const Key key = key_of(send.number, *send.flight);
    sent_[key] = send;
    auto waiting = posted_.extract(key);
    return waiting.empty() ? std::vector<Arrival>{} : std::move(waiting.mapped());
  }

  /// \return the send, if there is one already.
  std::optional<Arrival> add_receive(const Arrival& receive) {
    const Key key = key_of(receive.flight->work->with->classes.front(), *receive.flight);
    const auto sent = sent_.find(key);
    if (sent != sent_.end()) return sent->second;
    posted_[key].push_back(receive);
    return std::nullopt;
  }

  /// When the channel of the message has delivered those before it.
  double& free(const Arrival& send, const Arrival& receive) {
    return channels_[{send.number, receive.number, send.flight->work->instruction->as<Send>()->channel}];
  }

 private:
  /// Sender's class, id, micro-batch.
  using Key = std::tuple<int, std::uint64_t, int>;

  static Key key_of(int sender, const InFlight& flight) {
    return {sender, communication_id(*flight.work->instruction), flight.micro_batch};
  }

  std::unordered_map<Key, Arrival, boost::hash<Key>> sent_;
  std::unordered_map<Key, std::vector<Arrival>, boost::hash<Key>> posted_;
  std::map<std::tuple<int, int, int>, double> channels_;
};

/// Collectives of one group on one rank, in order.
struct Lane {
  std::deque<Flight> waiting;
  double free = 0;
};

/// A run of kernels without a gap.
struct BusyTime {
  double begin = 0;
  double end = 0;
};

/// How far a rank has come in a simulated step.
struct RankState {
  std::unique_ptr<TimedSchedule> schedule;
  std::size_t instance = 0;
  std::size_t work = 0;
  double clock = 0;     ///< of the compute stream
  double host = 0;      ///< of the thread that launches
  double transfer = 0;  ///< of the transfer stream
  std::vector<Lane> lanes;
  std::vector<Flight> in_flight;
  std::vector<BusyTime> busy;  ///< recent ones, for the slowdown by collectives
  Flight blocker;
  bool computes = false;  ///< its kernels are work of the shared cores
  bool is_done = false;
  SimulatedRank result;

  /// Forgets what is done by now, but for collectives that slow kernels down.
  void forget_finished() {
    const bool slows = schedule->timed().collective_slowdown > 1;
    std::erase_if(in_flight, [&](const Flight& flight) {
      return flight->is_done && flight->end <= clock && !(slows && flight->is_collective());
    });
  }

  /// Adds a run of kernels, or extends the last one.
  void note_busy(double begin, double end) {
    if (!busy.empty() && busy.back().end == begin) {
      busy.back().end = end;
    } else {
      busy.push_back({begin, end});
    }
  }
};

}  // namespace strata::host
