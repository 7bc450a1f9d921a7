#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lane.hpp"
#include "strata/communicator.hpp"

namespace strata::nccl {

using communicators::Fault;

/// Executes one rank's communication on its own thread. Setting up an NCCL communicator blocks until the other ranks
/// take part, and the rank must not wait for that. The thread also watches running communication. If a communication
/// fails, it ends all communication of this rank and reports the failure to the others.
///
/// Each link has a stream. The collectives of all groups are passed to NCCL in the order in which the program starts
/// them. Any two ranks see the collectives that they share in the same order. The messages of each pair and direction
/// have an order of their own.
class Engine {
 public:
  Engine(Backend backend, std::shared_ptr<rendezvous::Store> store, int rank, int device, double timeout);
  /// Returns when all operations have completed or timed out.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] EventPool& events() { return *events_; }
  /// The link of these ranks under `key`. It is created at its first use, or by make_links().
  [[nodiscard]] std::shared_ptr<Link> link(const std::string& key, const std::vector<int>& ranks);
  /// Returns when the links are created. Kernels on links that are created from now on have at most `blocks` blocks.
  /// \throws the failure that ended communication. \throws RuntimeError after the timeout.
  void make_links(const std::vector<std::shared_ptr<Link>>& links, int blocks);

  /// Passes operations to the engine's thread. \throws the failure that ended communication, if there was one.
  void hand_over(const Operations& operations);
  /// Watches the communication in a graph. `end`: the event after the graph, which has just been launched, and after
  /// its marks were cleared. \throws as hand_over().
  void watch_graph(std::shared_ptr<const Operations> operations, EventPointer end);
  /// Returns when the operation is on its stream. \throws the failure that ended communication, once no communication
  /// accesses this rank's memory any more. \throws RuntimeError after the timeout for an operation that was never
  /// passed.
  void await_launch(const Operation& operation);
  /// \throws the failure that ended communication, if there was one.
  void check();
  void abort(const std::string& reason) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// A launch of a graph, passed to the progress thread.
  struct GraphLaunch {
    std::shared_ptr<const Operations> operations;
    EventPointer end;
  };

  void run();
  void progress();
  /// Takes the links, operations and graph launches that the rank's thread has added. \return false if it is time to
  /// stop.
  [[nodiscard]] bool take_work(Lock& lock);
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] Activity advance();
  [[nodiscard]] Activity advance_links();
  void pause(Lock& lock, Activity activity);
  void set_fault(Fault fault) noexcept;
  void stop_everything();
  void abort_links(rendezvous::Clock::time_point deadline);
  [[noreturn]] void raise(Lock& lock, const Operation* operation);
  void await_graph() const noexcept;
  [[nodiscard]] Lane& lane(const Link* link);
  [[nodiscard]] LaunchQueue& queue(const Operation& operation);
  [[nodiscard]] std::unique_ptr<LaunchQueue> make_queue();

  Backend backend_;
  std::shared_ptr<rendezvous::Store> store_;
  int rank_;
  int device_;
  std::chrono::duration<double> timeout_;
  std::shared_ptr<EventPool> events_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Link>> links_by_key_;
  /// True if the progress thread has not yet taken everything below.
  bool has_news_ = false;
  std::vector<std::shared_ptr<Link>> new_links_;
  Operations new_operations_;
  std::vector<GraphLaunch> new_launches_;
  /// Links that make_links() waits for, and the limit of blocks for kernels on them and on later links.
  std::vector<std::shared_ptr<Link>> unmade_links_;
  int new_blocks_ = 0;
  std::optional<Fault> fault_;
  /// True if after a failure no communication is running any more.
  bool quiet_ = false;
  bool closing_ = false;

  /// The event after the last graph. Used by the rank's thread only.
  EventPointer graph_end_;

  // The members below are used by the engine's thread only.
  std::vector<std::shared_ptr<Link>> links_;
  int blocks_ = 0;
  std::map<const Link*, std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<LaunchQueue> collectives_;
  /// The queues of messages, by link.
  std::map<const Link*, std::unique_ptr<LaunchQueue>> messages_;
  GraphWatch graphs_;
  /// Links with calls in graphs.
  std::set<const Link*> captured_links_;
  std::vector<std::future<void>> aborts_;
  Activity last_activity_ = Activity::idle;
  int polls_ = 0;

  std::thread thread_;
};

/// The rank of a communicator.
struct Place {
  int rank = 0;
  int rank_count = 1;
  /// Number of ranks in this process.
  int local_rank_count = 1;
};

/// A channel of messages from one world rank to another.
struct MessageChannel {
  int from = 0;
  int to = 0;
  int number = 0;

  auto operator<=>(const MessageChannel&) const = default;
};

/// One rank's endpoint. Each group and each channel of messages has its own NCCL communicator and stream. NCCL matches
/// the messages of a communicator by their order, and messages of one channel never wait for those of another.
///
/// A request waits for its own communication only. The compiler assumes that collectives of all groups end in the order
/// in which they were started. host/runtime/requests_in_flight.hpp ensures that by waiting for each of them.
class NcclCommunicator final : public Communicator {
 public:
  /// `device`: one whose streams belong to the runtime of `backend`.
  NcclCommunicator(Backend backend, std::shared_ptr<rendezvous::Store> store, const Place& place, Device& device,
                   double timeout);

  [[nodiscard]] int rank() const override { return place_.rank; }
  [[nodiscard]] int rank_count() const override { return place_.rank_count; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override;
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override;
  void abort(const std::string& reason) noexcept override { engine_.abort(reason); }
  void check() override { engine_.check(); }
  [[nodiscard]] std::optional<std::string> uncapturable() const override;
  [[nodiscard]] std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate) override;
  void make_ready(const CommunicationPlan& plan) override;

 private:
  using Waiting = std::map<std::uint64_t, std::deque<OperationPointer>>;

  [[nodiscard]] OperationPointer message(Operation::Kind kind, const MessageCall& call);
  [[nodiscard]] const std::shared_ptr<Link>& group(int number) const {
    return groups_[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] std::shared_ptr<Link> link(const MessageChannel& channel);
  /// Collectives in flight on other links that access the memory of `operation`, so that it must not overtake them.
  [[nodiscard]] Operations conflicts(const Operation& operation);
  [[nodiscard]] std::unique_ptr<Request> hand_over(const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> to_itself(const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> request(const OperationPointer& operation);
  /// Records the current end of the compute stream in the operation, and during a capture the marks that it needs.
  void place_in_work(Operation& operation);
  /// Passes operations to the engine. During a capture, waits until they are recorded, because two threads must not
  /// change a graph at the same time.
  void launch(const Operations& operations);
  /// Agrees with all ranks on a number of blocks per kernel. With it, a GPU can run the kernels of as many links at
  /// once as any rank has.
  [[nodiscard]] int agree_on_blocks(std::size_t links);
  /// Executes a collective, or a message through a channel, once with one element, so that NCCL sets it up.
  void warm_up(const CommunicationPlan::Collective& collective);
  void warm_up(const MessageChannel& channel);
  void finish(std::unique_ptr<Request> request);

  Place place_;
  Device& device_;
  std::shared_ptr<rendezvous::Store> store_;
  std::chrono::duration<double> timeout_;
  std::shared_ptr<GpuRuntime> gpu_;
  NativeStream compute_;
  /// State of make_ready(): the keys of communication that is set up, and the number of calls.
  std::set<std::string> warm_;
  int preparations_ = 0;
  std::vector<std::shared_ptr<Link>> groups_;
  /// Messages of this rank to itself whose other end has not been posted yet.
  Waiting own_sends_;
  Waiting own_receives_;
  /// Collectives that were started and that the compute stream does not wait for yet.
  Operations collectives_in_flight_;
  GraphMarks marks_;
  /// Operations of the current capture. Null if there is no capture.
  std::shared_ptr<Operations> captured_;
  Engine engine_;
};

}  // namespace strata::nccl
