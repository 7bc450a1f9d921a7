#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/export.hpp"
#include "strata/layout.hpp"
#include "strata/plugin.hpp"
#include "strata/program.hpp"

namespace strata {

/// Another rank failed, and this one stopped because of it: never the root cause.
class STRATA_API AbortedError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
  ~AbortedError() override;
};

/// A communication under way.
class STRATA_API Request {
 public:
  virtual ~Request();
  /// Makes the device's compute stream wait for the result (a CPU: returns when it is there). Called once.
  /// \throws RuntimeError that names rank, communication and the peers that did not come, after the timeout,
  /// AbortedError when a peer aborted.
  virtual void wait() = 0;
};

/// One rank's part of a collective over contiguous memory. Element counts are of the input on this rank; the output has
/// all_reduce, all_to_all, broadcast: as many; all_gather: times the group's size; reduce_scatter: divided by it.
/// Pieces lie in group order. all_reduce and broadcast may work in place.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  int group = 0;
  int root = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t elements = 0;
  /// The program's logical id and micro-batch: ranks meet under it, and a mismatch is an error instead of a wrong sum.
  std::uint64_t id = 0;
  /// For messages: the instruction's name.
  const std::string* name = nullptr;
};

/// One message between two ranks.
struct MessageCall {
  int peer = 0;  ///< rank in the world
  void* data = nullptr;
  std::int64_t bytes = 0;
  std::uint64_t id = 0;
  const std::string* name = nullptr;
};

/// What the static check must know.
struct CommunicatorLimits {
  /// Messages that may be under way from one rank to another before a send waits for its receive; 0: unlimited.
  int channel_capacity = 0;
  /// True where a receive takes the message with its id, whatever was sent before it; false where messages from one
  /// rank to another are received in the order in which they were sent.
  bool matches_messages_by_id = false;
};

/// Bytes and calls that a rank has handed over, by kind of collective and axes; send counts as its own kind.
struct Traffic {
  std::int64_t calls = 0;
  double bytes_sent = 0;
};

/// Communication that a graph of the device holds. Ends after the graph, and before the communicator.
class STRATA_API CapturedCommunication {
 public:
  virtual ~CapturedCommunication();
  /// To be called after each launch of the graph: from then on the communicator watches over this communication, as
  /// over what is started, until it is over. \throws what Request::wait() would.
  virtual void launched() = 0;
};

/// One rank's end. Communication starts after what was enqueued on the device's compute stream before the call, and
/// runs beside what is enqueued after it.
class STRATA_API Communicator {
 public:
  virtual ~Communicator();
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int rank_count() const = 0;
  /// Makes a group of ranks (this one among them), in that order. Every member calls it, in the same order of groups.
  /// \return its number.
  [[nodiscard]] virtual int create_group(const std::vector<int>& ranks) = 0;
  [[nodiscard]] virtual std::unique_ptr<Request> start(const CollectiveCall& call) = 0;
  /// The data is free for reuse once the request is waited for; sends do not wait for their receive.
  [[nodiscard]] virtual std::unique_ptr<Request> send(const MessageCall& call) = 0;
  [[nodiscard]] virtual std::unique_ptr<Request> receive(const MessageCall& call) = 0;
  /// Ends every wait of every rank with an error that carries `reason`. Called by the rank that failed, from any
  /// thread.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Where wait() returns before the communication is over, as with a GPU, it may still fail: to be called once the
  /// compute stream is synchronized, before the results are used. Default: nothing can have failed. \throws what
  /// Request::wait() would.
  virtual void check();

  /// Empty if capture() is possible, else why not; the same on all ranks. Default: it is not.
  [[nodiscard]] virtual std::optional<std::string> uncapturable() const;
  /// To be called within Device::capture() of this rank's device. Calls `communicate`, which may start communication as
  /// it has been carried out before, and waits for all that it starts; this becomes part of what the device captures.
  /// Every rank must capture its end of a communication, or none: that holds for each launch as well.
  /// \throws what `communicate` throws, RuntimeError if the communication cannot be captured. Then the other ranks have
  /// to be stopped with abort().
  [[nodiscard]] virtual std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate);
};

/// All ranks of a run, as far as this process sees them.
class STRATA_API World {
 public:
  virtual ~World();
  [[nodiscard]] virtual int rank_count() const = 0;
  /// Ranks that this process runs, each on a thread of its own.
  [[nodiscard]] virtual std::vector<int> local_ranks() const = 0;
  [[nodiscard]] virtual CommunicatorLimits limits() const = 0;
  /// Called once per local rank, from that rank's thread; the device outlives the communicator.
  [[nodiscard]] virtual std::unique_ptr<Communicator> connect(int rank, Device& device) = 0;

  /// Ranks that share this process's machine, those of other processes too. Default: the local ranks.
  [[nodiscard]] virtual int ranks_on_host() const;
  /// Position of a local rank among them. Default: its position among the local ranks.
  [[nodiscard]] virtual int index_on_host(int rank) const;
};

/// What a communicator plugin hands to the host.
class STRATA_API CommunicatorFactory : public PluginFactory {
 public:
  ~CommunicatorFactory() override;
  /// `rank_count`: the mesh's. \throws ConfigurationError if it does not fit how the processes were started.
  [[nodiscard]] virtual std::unique_ptr<World> create(const Options& options, int rank_count) const = 0;
};

}  // namespace strata
