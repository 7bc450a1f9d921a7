#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives.hpp"
#include "fabric.hpp"
#include "messages.hpp"
#include "pause.hpp"

namespace strata::mpi {

/// Executes one rank's communication on a thread of its own, which overlaps with computation. Only this thread calls
/// MPI from the constructor to the end of finish().
class Engine {
 public:
  /// `control` and `data`: MPI communicators of all ranks, on which nothing else is sent.
  Engine(MPI_Comm control, MPI_Comm data, int rank, int rank_count, std::chrono::duration<double> timeout);
  /// As finish().
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Communicates memory of `device` from now on.
  void open(Device& device);
  /// Ends unfinished operations with an error, and tells the peers that this rank has left. Returns when nothing
  /// accesses the device's memory any more.
  void close();
  /// Returns when all ranks have closed and every transfer has ended, or after the timeout. \return false in the latter
  /// case.
  bool finish();

  /// Passes an operation to the thread. \throws AbortedError after an abort.
  void hand_over(const OperationPointer& operation);
  /// Returns when the operation has ended. \throws its fault.
  void wait(Operation& operation);
  void abort(const std::string& reason) noexcept;

 private:
  /// What other threads ask of the engine's thread.
  struct Orders {
    std::vector<OperationPointer> operations;
    bool aborts = false;
    bool closes = false;
    bool finishes = false;
  };

  void run();
  /// One round of progress. \return false if the rank is done.
  bool round(Pause& pause);
  [[nodiscard]] Orders take_orders();
  void execute(const Orders& orders);
  void receive(int from, Control control);
  void broadcast(const Control& control);
  /// Ends all operations because a rank failed, which may be this one.
  void stop(const std::string& reason);
  void leave();
  /// True if no rank needs this one any more, or if that takes too long.
  [[nodiscard]] bool may_end(Clock::time_point now);
  [[nodiscard]] FaultOf fault_of_all() const;
  void finish_operation(const OperationPointer& operation, std::optional<Fault> fault);
  void fail_at_once(const std::string& why);
  void rest(Pause& pause, bool progressed);

  int rank_;
  int rank_count_;
  std::chrono::duration<double> timeout_;
  Fabric fabric_;

  std::mutex mutex_;
  /// The thread has new orders.
  std::condition_variable ordered_;
  /// An operation has ended, or all have.
  std::condition_variable ended_;
  Orders orders_;
  std::optional<std::string> abort_reason_;
  int waiting_ = 0;
  bool closed_ = false;
  bool complete_ = false;

  // The thread's own.
  Collectives collectives_;
  Messages messages_;
  std::optional<std::string> stopped_by_;
  bool has_left_ = false;
  bool is_done_ = false;
  bool broken_ = false;  ///< communication of this rank or another one did not end well
  std::set<int> done_peers_;
  std::optional<Clock::time_point> finishing_since_;

  std::thread thread_;
};

}  // namespace strata::mpi
