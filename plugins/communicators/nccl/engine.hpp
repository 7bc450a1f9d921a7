#pragma once

#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lane.hpp"

namespace strata::nccl {

using communicators::Fault;

/// Which lane: that of the collectives, or that of the messages from one rank to another.
struct LaneKey {
  int from = -1;
  int to = -1;
  auto operator<=>(const LaneKey&) const = default;
};

/// Communications and their lanes, in order.
using Operations = std::vector<std::pair<LaneKey, OperationPointer>>;

/// Carries out one rank's communication on a thread of its own, since setting up a communication takes until the
/// other ranks come: nothing that a rank does next waits for that. It also watches over what runs, and when something
/// fails ends everything on this rank and tells the others.
class Engine {
 public:
  Engine(Backend backend, std::shared_ptr<rendezvous::Store> store, int rank, int device, double timeout);
  /// Returns when what was handed over is done or given up.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] EventPool& events() { return *events_; }
  /// The link of these ranks under a key; begins to make it when it is first asked for.
  [[nodiscard]] std::shared_ptr<Link> link(const std::string& key, const std::vector<int>& ranks);

  /// \throws what ended the communication, if it has ended.
  void hand_over(const Operations& operations);
  /// Watches over what a graph holds until it is over; `end`: the point after the graph, which was just launched.
  /// \throws as hand_over.
  void watch_graph(const Operations& operations, EventPointer end);
  /// Returns when the operation is on its stream. \throws what ended the communication, once nothing touches this
  /// rank's memory any more; RuntimeError after the timeout for one that was never handed over.
  void await_launch(const Operation& operation);
  /// \throws what ended the communication, if it has ended.
  void check();
  void abort(const std::string& reason) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void progress();
  /// Hands what is new to links and lanes. \return false if it is time to stop.
  [[nodiscard]] bool take_work(Lock& lock);
  [[nodiscard]] Activity advance();
  void pause(Lock& lock, Activity activity);
  void set_fault(Fault fault) noexcept;
  void stop_everything();
  void abort_links(rendezvous::Clock::time_point deadline);
  [[noreturn]] void raise(Lock& lock, const Operation* operation);
  void await_graph() const noexcept;
  [[nodiscard]] Lane& lane(const LaneKey& key);

  Backend backend_;
  std::shared_ptr<rendezvous::Store> store_;
  int rank_;
  int device_;
  std::chrono::duration<double> timeout_;
  std::shared_ptr<EventPool> events_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Link>> links_by_key_;
  std::vector<std::shared_ptr<Link>> new_links_;
  Operations new_operations_;
  std::optional<Fault> fault_;
  /// After a fault: nothing runs any more.
  bool quiet_ = false;
  bool closing_ = false;

  /// The rank's own: where the last graph ends.
  EventPointer graph_end_;

  // The progress thread's own.
  std::vector<std::shared_ptr<Link>> links_;
  std::map<LaneKey, std::unique_ptr<Lane>> lanes_;
  /// Those whose calls graphs hold.
  std::set<const Link*> captured_links_;
  std::vector<std::future<void>> aborts_;
  Activity last_activity_ = Activity::idle;
  int polls_ = 0;

  std::thread thread_;
};

}  // namespace strata::nccl
