#include "simulate/simulation.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <tuple>

#include "simulate/kernel_draws.hpp"
#include "simulate/rank_state.hpp"
#include "simulate/shared_cores.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Communication in flight from which on a rank looks for some that is done.
constexpr std::size_t kManyInFlight = 32;

class Simulator {
 public:
  Simulator(const std::vector<TimedProgram>& programs, const std::vector<int>& class_of_rank, std::uint64_t step,
            const SimulationSettings& settings)
      : settings_(settings),
        draws_(settings.spread, settings.seed),
        shared_(settings.pool.cores),
        counts_(programs.size()) {
    for (const int number : class_of_rank) ++counts_[static_cast<std::size_t>(number)];
    for (std::size_t i = 0; i < programs.size(); ++i) {
      RankState& rank = ranks_.emplace_back();
      rank.schedule = std::make_unique<TimedSchedule>(programs[i], class_of_rank, static_cast<int>(i), step);
      rank.lanes.resize(static_cast<std::size_t>(rank.schedule->lanes()));
      ready_.push_back(static_cast<int>(i));
    }
  }

  Simulation run() {
    do {
      while (!ready_.empty()) {
        const int number = ready_.front();
        ready_.pop_front();
        advance(number);
      }
    } while (shared_.run_next() || unblock());
    Simulation simulation;
    for (const RankState& rank : ranks_) simulation.seconds = std::max(simulation.seconds, rank.clock);
    for (RankState& rank : ranks_) {
      rank.result.end = rank.clock;
      rank.result.idle += simulation.seconds - rank.clock;
      simulation.ranks.push_back(std::move(rank.result));
    }
    simulation.works = std::move(works_);
    return simulation;
  }

 private:
  [[nodiscard]] RankState& at(int number) { return ranks_[static_cast<std::size_t>(number)]; }

  // --- the compute stream

  void advance(int number) {
    RankState& rank = at(number);
    rank.blocker = nullptr;
    const std::vector<TaskInstance>& schedule = rank.schedule->program().schedule;
    for (; rank.instance < schedule.size(); ++rank.instance, rank.work = 0) {
      const TaskInstance& instance = schedule[rank.instance];
      const std::vector<TimedWork>& works = rank.schedule->works(instance);
      for (; rank.work < works.size(); ++rank.work) {
        if (!wait(rank, works[rank.work], instance.micro_batch)) return;
        start(number, works[rank.work], instance);
        if (!rank.computes) continue;
        ++rank.work;
        return;
      }
    }
    if (!wait_for_all(rank)) return;
    rank.is_done = true;
  }

  /// Waits for what the work must not overtake. \return false if some of it has not begun, because other ranks lag.
  bool wait(RankState& rank, const TimedWork& work, int micro_batch) {
    bool has_begun = true;
    rank.schedule->ranges().for_each_wait(*work.instruction, micro_batch, [&](const ByteRange& range) {
      for (std::size_t i = 0; has_begun && i < rank.in_flight.size();) {
        if (!rank.in_flight[i]->uses(range)) {
          ++i;
        } else {
          has_begun = finish(rank, i);
        }
      }
    });
    return has_begun;
  }

  bool wait_for_all(RankState& rank) {
    while (!rank.in_flight.empty()) {
      if (!finish(rank, 0)) return false;
    }
    return true;
  }

  /// Waits for one asynchronous instruction.
  bool finish(RankState& rank, std::size_t index) {
    const Flight flight = rank.in_flight[index];
    if (!flight->is_done) {
      rank.blocker = flight;
      return false;
    }
    rank.in_flight.erase(rank.in_flight.begin() + static_cast<std::ptrdiff_t>(index));
    const double waited_for_ranks = std::max(0.0, std::min(flight->ready, flight->end) - rank.clock);
    const double waited = std::max(0.0, flight->end - rank.clock);
    const bool is_transfer = flight->work->kind == TimedWork::Kind::transfer;
    rank.result.idle += waited_for_ranks;
    double& network = is_transfer ? rank.result.transfer : rank.result.exposed[flight->work->with->axes];
    network += waited - waited_for_ranks;
    const double delay = is_transfer ? 0 : slowdown(rank, *flight);
    network += delay;
    rank.clock += waited + delay;
    return true;
  }

  /// Time that kernels beside a collective lose to it.
  static double slowdown(const RankState& rank, const InFlight& flight) {
    const double factor = rank.schedule->timed().collective_slowdown;
    if (factor <= 1 || !flight.is_collective()) return 0;
    double beside = 0;
    for (auto busy = rank.busy.rbegin(); busy != rank.busy.rend() && busy->end > flight.begin; ++busy) {
      beside += std::max(0.0, std::min(busy->end, flight.end) - std::max(busy->begin, flight.begin));
    }
    return beside * (1 - 1 / factor);
  }

  void start(int number, const TimedWork& work, const TaskInstance& instance) {
    RankState& rank = at(number);
    if (work.kind == TimedWork::Kind::kernels) return run_kernels(number, work, instance);
    rank.host += rank.schedule->timed().launch;
    const auto flight = std::make_shared<InFlight>();
    flight->work = &work;
    flight->micro_batch = instance.micro_batch;
    flight->issued = std::max(rank.clock, rank.host);
    flight->ranges.reserve(work.instruction->inputs.size() + work.instruction->outputs.size());
    for (const auto* buffers : {&work.instruction->inputs, &work.instruction->outputs}) {
      for (const BufferId id : *buffers) {
        flight->ranges.push_back(rank.schedule->ranges().range(id, instance.micro_batch));
      }
    }
    switch (work.kind) {
      case TimedWork::Kind::collective:
        add_collective(number, flight);
        break;
      case TimedWork::Kind::send:
        send(number, flight);
        break;
      case TimedWork::Kind::receive:
        receive(number, flight);
        break;
      default:
        start_transfer(number, flight);
    }
    if (rank.in_flight.size() > kManyInFlight) rank.forget_finished();
    rank.in_flight.push_back(flight);
  }

  void run_kernels(int number, const TimedWork& work, const TaskInstance& instance) {
    RankState& rank = at(number);
    const double seconds = work.seconds * draws_.factor(counts_[static_cast<std::size_t>(number)], work.kernels);
    if (!shares_cores() || seconds <= 0) return end_kernels(number, work, instance, rank.clock + seconds);
    rank.computes = true;
    shared_.add({rank.clock, seconds, settings_.pool.threads * counts_[static_cast<std::size_t>(number)],
                 [this, number, &work, &instance](double end) {
                   at(number).computes = false;
                   end_kernels(number, work, instance, end);
                   ready_.push_back(number);
                 }});
  }

  /// `by_device`: when they end if the host launches them in time.
  void end_kernels(int number, const TimedWork& work, const TaskInstance& instance, double by_device) {
    RankState& rank = at(number);
    const double begin = rank.clock;
    const double launch = rank.schedule->timed().launch;
    const double by_host = launch > 0 ? rank.host + work.launched : 0;
    rank.host += work.kernels * launch;
    rank.clock = std::max(by_device, by_host);
    rank.result.launch += rank.clock - by_device;
    const double slowdown = work.seconds > 0 ? (by_device - begin) / work.seconds : 1;
    for (std::size_t i = 0; i < kWorkKinds; ++i) rank.result.busy[i] += slowdown * work.busy[i];
    if (rank.schedule->timed().collective_slowdown > 1) rank.note_busy(begin, rank.clock);
    if (settings_.records) record_kernels(number, instance, begin, rank.clock);
  }

  // --- collectives

  void add_collective(int number, const Flight& flight) {
    RankState& rank = at(number);
    for (const Flight& other : rank.in_flight) {
      if (!other->is_collective() || other->work->with->lane == flight->work->with->lane) continue;
      const bool shares =
          std::ranges::any_of(flight->ranges, [&](const ByteRange& range) { return other->uses(range); });
      if (shares) flight->before.push_back(other);
    }
    rank.lanes[static_cast<std::size_t>(flight->work->with->lane)].waiting.push_back(flight);
    run_lanes(number);
  }

  /// Starts the collectives that can start, and those that follow from it on other ranks.
  void run_lanes(int number) {
    std::vector<int> changed{number};
    while (!changed.empty()) {
      const int next = changed.back();
      changed.pop_back();
      for (Lane& lane : at(next).lanes) {
        while (!lane.waiting.empty() && arrive(next, lane, changed)) {
        }
      }
    }
  }

  /// The first collective of a lane. \return true if it has run and left the lane.
  bool arrive(int number, Lane& lane, std::vector<int>& changed) {
    const Flight flight = lane.waiting.front();
    if (flight->has_arrived) return false;
    double arrival = std::max(flight->issued, lane.free);
    for (const Flight& other : flight->before) {
      if (!other->is_done) return false;
      arrival = std::max(arrival, other->end);
    }
    flight->has_arrived = true;
    const std::vector<int>& members = flight->work->with->classes;
    if (members.size() < 2) {
      run_collective({{number, flight, arrival}}, changed);
      return flight->is_done;
    }
    const auto key = std::make_tuple(members, communication_id(*flight->work->instruction), flight->micro_batch);
    std::vector<Arrival>& arrivals = arrivals_[key];
    arrivals.push_back({number, flight, arrival});
    if (arrivals.size() < members.size()) return false;
    const std::vector<Arrival> all = std::move(arrivals);
    arrivals_.erase(key);
    run_collective(all, changed);
    return flight->is_done;
  }

  void run_collective(const std::vector<Arrival>& arrivals, std::vector<int>& changed) {
    double begin = 0;
    double ready = 0;
    double seconds = 0;
    for (const Arrival& each : arrivals) {
      begin = std::max(begin, each.at);
      ready = std::max(ready, each.flight->issued);
      seconds = std::max(seconds, each.flight->work->seconds);
    }
    if (!shares_cores()) {
      end_collective(arrivals, ready, begin, begin + seconds);
      for (const Arrival& each : arrivals) changed.push_back(each.number);
      return;
    }
    double ranks = 0;
    for (const Arrival& each : arrivals) ranks += counts_[static_cast<std::size_t>(each.number)];
    shared_.add({begin, seconds, ranks, [this, arrivals, ready, begin](double end) {
                   end_collective(arrivals, ready, begin, end);
                   for (const Arrival& each : arrivals) run_lanes(each.number);
                 }});
  }

  void end_collective(const std::vector<Arrival>& arrivals, double ready, double begin, double end) {
    for (const Arrival& each : arrivals) {
      Lane& lane = at(each.number).lanes[static_cast<std::size_t>(each.flight->work->with->lane)];
      lane.free = end;
      lane.waiting.pop_front();
      complete(each.number, *each.flight, ready, begin, end);
    }
  }

  // --- messages and transfers

  void send(int number, const Flight& flight) {
    const Arrival send{number, flight, flight->issued};
    for (const Arrival& receive : messages_.add_send(send)) deliver(send, receive);
  }

  void receive(int number, const Flight& flight) {
    const Arrival receive{number, flight, flight->issued};
    if (const auto send = messages_.add_receive(receive)) deliver(*send, receive);
  }

  void deliver(const Arrival& send, const Arrival& receive) {
    double& free = messages_.free(send, receive);
    const double ready = std::max(send.at, receive.at);
    const double begin = std::max(ready, free);
    const double seconds = std::max(send.flight->work->seconds, receive.flight->work->seconds);
    const auto end_message = [this, send, receive, ready, begin](double end) {
      if (!send.flight->is_done) complete(send.number, *send.flight, ready, begin, end);
      complete(receive.number, *receive.flight, ready, begin, end);
    };
    if (shares_cores()) {
      // One end copies.
      shared_.add(
          {ready, seconds, static_cast<double>(counts_[static_cast<std::size_t>(receive.number)]), end_message});
    } else {
      free = begin + seconds;
      end_message(free);
    }
  }

  void start_transfer(int number, const Flight& flight) {
    RankState& rank = at(number);
    const double begin = std::max(flight->issued, rank.transfer);
    rank.transfer = begin + flight->work->seconds;
    complete(number, *flight, flight->issued, begin, rank.transfer);
  }

  void complete(int number, InFlight& flight, double ready, double begin, double end) {
    flight.is_done = true;
    flight.ready = ready;
    flight.begin = begin;
    flight.end = end;
    flight.before.clear();
    if (at(number).blocker.get() == &flight) ready_.push_back(number);
    if (settings_.records) record_communication(number, flight);
  }

  /// Ranks wait for a rank that its class does not stand for: the first blocked one goes on as if its own class had the
  /// other end. \return false if no rank is blocked.
  bool unblock() {
    for (int number = 0; number < static_cast<int>(ranks_.size()); ++number) {
      RankState& rank = at(number);
      if (rank.is_done) continue;
      const Flight flight = rank.blocker;
      if (flight == nullptr) throw VerificationError("the simulation of a step does not end");
      if (flight->is_collective()) {
        unblock_lane(number, flight);
      } else {
        complete(number, *flight, flight->issued, flight->issued, flight->issued + flight->work->seconds);
      }
      return true;
    }
    return false;
  }

  void unblock_lane(int number, const Flight& flight) {
    std::vector<int> changed;
    Lane& lane = at(number).lanes[static_cast<std::size_t>(flight->work->with->lane)];
    const Flight first = lane.waiting.front();
    first->has_arrived = true;
    for (auto& [key, arrivals] : arrivals_) {
      std::erase_if(arrivals, [&](const Arrival& each) { return each.flight == first; });
    }
    run_collective({{number, first, std::max(first->issued, lane.free)}}, changed);
    run_lanes(number);
    if (!flight->is_done) ready_.push_back(number);
  }

  // --- records

  void record_kernels(int number, const TaskInstance& instance, double begin, double end) {
    const Task& task = at(number).schedule->program().tasks[static_cast<std::size_t>(instance.task)];
    works_.push_back(
        {number, SimulatedWork::Stream::compute, task.name, instance.task, instance.micro_batch, begin, end});
  }

  void record_communication(int number, const InFlight& flight) {
    const bool is_transfer = flight.work->kind == TimedWork::Kind::transfer;
    const Instruction& instruction = *flight.work->instruction;
    works_.push_back({number, is_transfer ? SimulatedWork::Stream::transfer : SimulatedWork::Stream::communication,
                      work_name(instruction) + " " + instruction.name, -1, flight.micro_batch, flight.begin,
                      flight.end});
  }

  [[nodiscard]] bool shares_cores() const { return settings_.pool.cores > 0; }

  SimulationSettings settings_;
  KernelDraws draws_;
  SharedCores shared_;
  /// Ranks of each class.
  std::vector<int> counts_;
  std::vector<RankState> ranks_;
  std::deque<int> ready_;
  std::map<std::tuple<std::vector<int>, std::uint64_t, int>, std::vector<Arrival>> arrivals_;
  MessageBoard messages_;
  std::vector<SimulatedWork> works_;
};

}  // namespace

Simulation simulate(const std::vector<TimedProgram>& programs, const std::vector<int>& class_of_rank,
                    std::uint64_t step, const SimulationSettings& settings) {
  return Simulator(programs, class_of_rank, step, settings).run();
}

}  // namespace strata::host
