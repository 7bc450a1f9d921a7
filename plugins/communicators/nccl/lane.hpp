#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "operation.hpp"
#include "rendezvous/store.hpp"

namespace strata::nccl {

/// The progress of communication, in ascending order of how soon the progress thread must poll again.
enum class Activity : std::uint8_t {
  idle,
  running,   ///< all communication is on its stream
  launching  ///< NCCL is setting up a communication
};

/// \throws RuntimeError always: `operation` has waited for its peers for longer than `timeout`.
[[noreturn]] void give_up(const Operation& operation, std::chrono::duration<double> timeout);

/// The timeout of one operation at a time.
class Patience {
 public:
  explicit Patience(std::chrono::duration<double> timeout) : timeout_(timeout) {}

  /// Watches `operation`, the oldest that has not made progress. Its timeout starts when `may_run` is true for the
  /// first time. \throws as give_up() when the timeout is over.
  void watch(const OperationPointer& operation, bool may_run);

 private:
  std::chrono::duration<double> timeout_;
  OperationPointer watched_;
  std::optional<rendezvous::Clock::time_point> since_;
};

/// A stream and the communications on it: those of one link, or the copies of a rank's messages to itself. Lanes do not
/// wait for each other. Used by the progress thread only.
class Lane {
 public:
  Lane(Backend backend, std::shared_ptr<EventPool> events, std::chrono::duration<double> timeout);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Puts an operation on the stream. Its link must be ready, and the operations that it comes after must be on their
  /// streams. \return true if NCCL was called: the operation is then on the stream once the link is idle. False if it
  /// is on the stream at once.
  [[nodiscard]] bool begin(Operation& operation);
  /// Records the end of an operation that is on the stream.
  void finish(const OperationPointer& operation);

  [[nodiscard]] bool is_empty() const { return running_.empty(); }
  /// Watches the running communication. \throws RuntimeError that names a communication that has failed, or whose peers
  /// did not take part in time.
  [[nodiscard]] Activity advance();
  /// Called after the links are aborted. \return true when the stream is idle.
  [[nodiscard]] bool drain() noexcept;

 private:
  void retire();

  Backend backend_;
  std::shared_ptr<EventPool> events_;
  Patience patience_;
  void* stream_;
  std::deque<OperationPointer> running_;
  /// The event at the end of the stream while it drains.
  EventPointer end_;
};

/// The communications that are not yet on their lanes. Each is passed to NCCL when the previous one is on its stream.
/// Used by the progress thread only.
class LaunchQueue {
 public:
  /// `launched` is called for every operation that is on its stream.
  LaunchQueue(std::shared_ptr<GpuRuntime> gpu, std::chrono::duration<double> timeout,
              std::function<void(const OperationPointer&)> launched);

  void push(Lane& lane, OperationPointer operation) { queue_.push_back({&lane, std::move(operation)}); }
  [[nodiscard]] bool is_empty() const { return queue_.empty(); }
  /// Launches as many operations as possible without waiting. `blocks`: upper limit of blocks for kernels on links that
  /// are created. \throws RuntimeError that names a communication that has failed, or whose peers did not take part in
  /// time.
  [[nodiscard]] Activity advance(int blocks);
  /// Drops the operations that are not on their streams.
  void clear() { queue_.clear(); }

 private:
  struct Entry {
    Lane* lane = nullptr;
    OperationPointer operation;
    /// True if the operation was passed to NCCL and is not yet on the stream.
    bool is_launching = false;
  };

  [[nodiscard]] bool launch_front(int blocks);
  [[nodiscard]] bool may_run(const Operation& operation) const;

  std::shared_ptr<GpuRuntime> gpu_;
  Patience patience_;
  std::function<void(const OperationPointer&)> launched_;
  std::deque<Entry> queue_;
};

/// Watches the communication of graphs from each launch to its end. Used by the progress thread only.
class GraphWatch {
 public:
  GraphWatch(std::shared_ptr<GpuRuntime> gpu, std::chrono::duration<double> timeout)
      : gpu_(std::move(gpu)), timeout_(timeout) {}

  /// Adds a launch of the graph with these operations. `end`: the event after which their marks are cleared.
  void launched(std::shared_ptr<const Operations> operations, EventPointer end);
  [[nodiscard]] bool is_empty() const { return graphs_.empty(); }
  /// Checks the launches. \throws RuntimeError that names a communication that has failed, or whose peers did not take
  /// part in time.
  [[nodiscard]] Activity advance();
  void clear() { graphs_.clear(); }

 private:
  struct Graph {
    std::shared_ptr<const Operations> operations;
    /// The end events of the launches in flight, the earliest launch first.
    std::deque<EventPointer> ends;
    /// For each operation, when the current launch started it. Empty if it has not.
    std::vector<std::optional<rendezvous::Clock::time_point>> since;
  };

  /// Checks one graph. \return false if no launch of it is in flight.
  [[nodiscard]] bool advance(Graph& graph) const;
  void watch(Graph& graph, std::size_t index) const;

  std::shared_ptr<GpuRuntime> gpu_;
  std::chrono::duration<double> timeout_;
  std::vector<Graph> graphs_;
};

}  // namespace strata::nccl
