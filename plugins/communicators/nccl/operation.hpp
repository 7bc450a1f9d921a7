#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend.hpp"
#include "collectives/operation.hpp"
#include "rendezvous/store.hpp"
#include "strata/error.hpp"

namespace strata::nccl {

/// Two bytes of pinned memory that a launch of a graph sets before and after a communication. An event cannot tell a
/// launch from the previous one, because it keeps its old state until the graph reaches it. The stream that launches
/// the graph clears the marks after each launch.
struct OperationMarks {
  unsigned char* begun = nullptr;
  unsigned char* ended = nullptr;

  /// True if the current launch has reached the communication, or has finished it.
  [[nodiscard]] bool is_begun() const { return is_set(begun); }
  [[nodiscard]] bool is_ended() const { return is_set(ended); }

 private:
  static bool is_set(unsigned char* mark);
};

/// The marks of a communicator's graphs. Marks are taken and given back by the rank's thread only.
class GraphMarks {
 public:
  /// Allocates all marks, because a capture forbids allocations.
  explicit GraphMarks(GpuRuntime& gpu);

  /// The number of marks in use.
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Takes the marks of one more communication. \throws RuntimeError if all are in use.
  [[nodiscard]] OperationMarks take();
  /// Gives back all marks except the first `count`, after a capture that failed.
  void give_back(std::int64_t count) { count_ = count; }
  /// Enqueues the clearing of the marks from `begin` to before `end`.
  void clear(GpuRuntime& gpu, void* stream, std::int64_t begin, std::int64_t end) const;

 private:
  std::shared_ptr<void> memory_;
  std::int64_t count_ = 0;
};

/// This rank's end of an NCCL communicator. It is created in steps, so that a rank need not wait for the others. The
/// first rank makes an id and puts it into the store. All ranks start with that id. NCCL connects them in the
/// background.
class Link {
 public:
  /// `key`: identifies the link. It is equal on all ranks of the link.
  Link(std::shared_ptr<NcclLibrary> nccl, std::shared_ptr<rendezvous::Store> store, std::vector<int> ranks, int rank,
       std::string key);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const std::string& key() const { return key_; }

  // The functions below are called by the progress thread only.

  /// Performs the next step of the creation if possible. `blocks`: upper limit of the blocks of NCCL's kernels on the
  /// link. \return true when the link is ready.
  [[nodiscard]] bool advance(int blocks);
  /// True if the last call on the link has returned. \throws RuntimeError if communication on it has failed.
  [[nodiscard]] bool is_idle() const { return nccl_->is_ready(handle_); }
  [[nodiscard]] void* handle() const { return handle_; }

  /// Starts to end the communicator after its work. The other ranks must do so as well.
  void begin_close() noexcept;
  /// Ends the communicator. Aborts work that has not ended at `deadline`.
  void close(rendezvous::Clock::time_point deadline) noexcept;
  void abort() noexcept;

 private:
  std::shared_ptr<NcclLibrary> nccl_;
  std::shared_ptr<rendezvous::Store> store_;
  std::vector<int> ranks_;
  int index_ = 0;
  std::string key_;
  void* handle_ = nullptr;
  bool ready_ = false;
};

/// One communication of one rank.
struct Operation : communicators::Operation {
  using communicators::Operation::Operation;

  /// The link to the other ranks. Null for a message to this rank itself.
  std::shared_ptr<Link> link;
  /// In a receive from this rank itself: the data to copy.
  const void* own_message = nullptr;
  /// The event of the compute stream after which the buffers may be accessed.
  EventPointer ready;
  /// The event after the communication. Set together with `launched`.
  EventPointer done;
  /// True if the operation is on its stream. Guarded by the engine's mutex.
  bool launched = false;
  /// True if the operation was captured. Once launched, it runs with every launch of the graph.
  bool captured = false;
  /// Earlier collectives of other groups that access the same memory.
  std::vector<std::shared_ptr<Operation>> after;
  /// For a collective: true if the compute stream waits for it, so that later operations run after it. Used by the
  /// rank's thread only.
  bool waited = false;
  /// For an operation in a graph: the marks that each launch sets before and after it.
  std::optional<OperationMarks> marks;

  /// True if no data is communicated.
  [[nodiscard]] bool is_empty() const { return kind == Kind::collective ? call.elements == 0 : message.bytes == 0; }
  /// True if other ranks take part.
  [[nodiscard]] bool uses_link() const { return link && link->size() > 1 && !is_empty(); }
};

using OperationPointer = std::shared_ptr<Operation>;
using Operations = std::vector<OperationPointer>;

/// Runs `work`. Adds the operation's name to the message of an error.
template <class Work>
auto named(const Operation& operation, const Work& work) {
  try {
    return work();
  } catch (...) {
    throw RuntimeError(fault_text(operation, current_exception_text()));
  }
}

/// Enqueues the communication on `stream`. Its link must be ready. \return true if NCCL was called: the communication
/// is then on the stream once the link is idle. False if it is on the stream at once.
[[nodiscard]] bool enqueue(const Operation& operation, NcclLibrary& nccl, GpuRuntime& gpu, void* stream);

}  // namespace strata::nccl
