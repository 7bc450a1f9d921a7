#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
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
    return std::any_of(ranges.begin(), ranges.end(), [&](const ByteRange& used) { return used.overlaps(range); });
  }
};
using Flight = std::shared_ptr<InFlight>;

/// A rank's class that has come to an instruction.
struct Arrival {
  int number = 0;
  Flight flight;
  double at = 0;
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
