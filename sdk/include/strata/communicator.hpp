#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/export.hpp"
#include "strata/layout.hpp"
#include "strata/plugin.hpp"
#include "strata/program.hpp"

namespace strata {

/// This rank stopped because another rank failed. The error is never the root cause, so reports name the other rank.
class STRATA_API AbortedError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
  ~AbortedError() override;
};

/// A communication in flight. The caller owns it.
class STRATA_API Request {
 public:
  virtual ~Request();
  /// Makes the device's compute stream wait for the communication. On a CPU, returns once the result is in memory.
  /// Called exactly once. \throws RuntimeError after the timeout, naming the rank, the communication and the peers that
  /// did not take part. \throws AbortedError if a peer aborted.
  virtual void wait() = 0;
};

/// Marks of the rows of an all_gather or a reduce_scatter. A communicator may leave out rows whose marks are all 0: in
/// the output of an all_gather they may have any contents, and in the input of a reduce_scatter they are 0. Both arrays
/// have the shape [ranks of the group, rows, marks]; the rows are those that one rank gives or gets. If this rank's
/// `sent` has a mark for a row and a peer, the peer's `received` has it for the same row and this rank.
struct RowMarks {
  const void* sent = nullptr;      ///< of rows of the input, by the rank that gets them
  const void* received = nullptr;  ///< of rows that arrive, by the rank that sends them
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t marks = 0;  ///< per row
};

/// One rank's part of a collective over contiguous memory. `elements` counts the input on this rank. Output elements,
/// for a group of n ranks:
///   all_reduce, all_to_all, broadcast   elements
///   all_gather                          elements · n
///   reduce_scatter                      elements / n
/// Pieces lie in group order. all_reduce and broadcast may work in place (input == output).
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  /// The number that create_group() returned.
  int group = 0;
  /// Index in the group of the rank that broadcasts.
  int root = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t elements = 0;
  /// The program's logical id combined with the micro-batch. Ranks match calls by it, so mismatched calls raise an
  /// error instead of computing a wrong sum.
  std::uint64_t id = 0;
  /// The instruction's name, for error messages. Owned by the caller.
  const std::string* name = nullptr;
  /// Empty: all rows travel.
  std::optional<RowMarks> marks = std::nullopt;
};

/// One message between two ranks.
struct MessageCall {
  int peer = 0;  ///< rank in the world, not in a group
  /// Messages of one channel are received in the order in which they are sent (CommunicatorLimits).
  int channel = 0;
  void* data = nullptr;
  std::int64_t bytes = 0;
  /// As CollectiveCall::id.
  std::uint64_t id = 0;
  const std::string* name = nullptr;
};

/// Limits of a communicator that the program checker takes into account when it looks for deadlocks.
struct CommunicatorLimits {
  /// Messages that may be in flight in one channel from one rank to another before a further send blocks; 0: unlimited.
  /// If messages are matched by id, all channels together count.
  int channel_capacity = 0;
  /// True if a receive matches the message with its id, in whatever order messages were sent. False if a rank receives
  /// the messages of one channel of a sender in the order in which they were sent.
  bool matches_messages_by_id = false;
};

/// Calls that a rank has issued and the bytes that it has sent, for one kind of collective over one set of axes. Sends
/// are counted as a kind of their own.
struct Traffic {
  std::int64_t calls = 0;
  double bytes_sent = 0;
};

/// Communication that was captured in a graph of the device. Destroyed after the graph and before the communicator.
class STRATA_API CapturedCommunication {
 public:
  virtual ~CapturedCommunication();
  /// Called after each launch of the graph. From then on the communicator watches this communication for failures and
  /// timeouts, as it does for started requests, until it ends. \throws what Request::wait() throws.
  virtual void launched() = 0;
};

/// The communication of one rank in a program, from which a communicator can set itself up.
struct CommunicationPlan {
  struct Collective {
    int group = 0;
    CollectiveKind kind = CollectiveKind::all_reduce;

    auto operator<=>(const Collective&) const = default;
  };

  std::set<Collective> collectives = {};
  /// The channels of messages to a world rank or from it.
  struct Channel {
    int peer = 0;
    int number = 0;

    auto operator<=>(const Channel&) const = default;
  };

  std::set<Channel> sends_to = {};
  std::set<Channel> receives_from = {};
};

/// One rank's endpoint. A communication starts after the work that was enqueued on the device's compute stream before
/// the call. It overlaps with work that is enqueued after the call. Collectives of one group run in the order in which
/// they are started. So do any two collectives that access the same memory, unless both only read it. Other collectives
/// may run concurrently.
class STRATA_API Communicator {
 public:
  virtual ~Communicator();
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int rank_count() const = 0;
  /// Makes a group of `ranks`, which include this one, in the given order. Every member makes the call, and all members
  /// create their common groups in the same order. \return the group's number.
  [[nodiscard]] virtual int create_group(const std::vector<int>& ranks) = 0;
  /// Starts this rank's part of a collective. Memory of the call stays valid until the request has been waited for.
  [[nodiscard]] virtual std::unique_ptr<Request> start(const CollectiveCall& call) = 0;
  /// Starts a send. It does not block until the peer receives. The data may be reused once the request has been waited
  /// for.
  [[nodiscard]] virtual std::unique_ptr<Request> send(const MessageCall& call) = 0;
  /// Starts a receive into `call.data`, which is valid once the request has been waited for.
  [[nodiscard]] virtual std::unique_ptr<Request> receive(const MessageCall& call) = 0;
  /// Ends every wait of every rank with an AbortedError that carries `reason`. The rank that failed calls it, from any
  /// thread.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Reports failures of communication whose wait() has returned already. On a GPU wait() only enqueues a dependency,
  /// so the communication may fail later. Called when the compute stream has been synchronized, before results are
  /// used. Default: does nothing. \throws what Request::wait() throws.
  virtual void check();

  /// Why capture() is impossible, or empty if it is possible. All ranks get the same answer. Default: it is impossible.
  [[nodiscard]] virtual std::optional<std::string> uncapturable() const;
  /// Captures communication into the graph of a running Device::capture() of this rank's device. Calls `communicate`,
  /// which may start only communication that has run before, and waits for everything that `communicate` starts. Either
  /// every rank of a communication captures its part, or none does. The same holds for launches. \throws what
  /// `communicate` throws. \throws RuntimeError if the communication cannot be captured; the caller then stops the
  /// other ranks with abort().
  [[nodiscard]] virtual std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate);

  /// Sets up the communication of `plan` in advance. A set-up at the first use could wait for kernels that wait for
  /// other ranks, which is a deadlock. All ranks call it before the first step of a program, each with its own plan.
  /// Default: does nothing. \throws what Request::wait() throws.
  virtual void make_ready(const CommunicationPlan& plan);
};

/// All ranks of a run, as seen by one process.
class STRATA_API World {
 public:
  virtual ~World();
  [[nodiscard]] virtual int rank_count() const = 0;
  /// The ranks that this process runs, each on its own thread.
  [[nodiscard]] virtual std::vector<int> local_ranks() const = 0;
  /// The limits for the program checker, the same on all ranks.
  [[nodiscard]] virtual CommunicatorLimits limits() const = 0;
  /// Connects one local rank. Called once per local rank, on that rank's thread. The device outlives the communicator.
  [[nodiscard]] virtual std::unique_ptr<Communicator> connect(int rank, Device& device) = 0;

  /// Number of ranks on this machine, including ranks of other processes. Default: the number of local ranks.
  [[nodiscard]] virtual int ranks_on_host() const;
  /// Position of a local rank among the ranks of its machine. Default: its position among the local ranks.
  [[nodiscard]] virtual int index_on_host(int rank) const;
};

/// The factory of a communicator plugin.
class STRATA_API CommunicatorFactory : public PluginFactory {
 public:
  ~CommunicatorFactory() override;
  /// `rank_count`: number of ranks of the mesh. \throws ConfigurationError if the processes were started with another
  /// number.
  [[nodiscard]] virtual std::unique_ptr<World> create(const Options& options, int rank_count) const = 0;
};

}  // namespace strata
