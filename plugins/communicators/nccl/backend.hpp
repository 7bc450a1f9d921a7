#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::nccl {

/// The part of the CUDA runtime that the communicator calls. Tests substitute an implementation in host memory. Handles
/// are cudaStream_t and cudaEvent_t. Functions throw RuntimeError.
class GpuRuntime {
 public:
  virtual ~GpuRuntime();

  /// Makes a GPU current on this thread.
  virtual void use_device(int device) = 0;
  /// The number of multiprocessors of a GPU. It can run at least that many of NCCL's blocks at the same time.
  [[nodiscard]] virtual int multiprocessors(int device) = 0;
  /// The number of CUDA's connections to a GPU. Streams that share one wait for each other.
  [[nodiscard]] virtual int connections() = 0;
  /// Allocates zeroed host memory that work on streams can write. Must not be called during a capture.
  [[nodiscard]] virtual std::shared_ptr<void> allocate_pinned(std::int64_t bytes) = 0;
  [[nodiscard]] virtual void* create_stream() = 0;
  virtual void destroy_stream(void* stream) noexcept = 0;
  [[nodiscard]] virtual void* create_event() = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record(void* event, void* stream) = 0;
  /// Makes later work of the stream wait for the recorded event.
  virtual void wait(void* stream, void* event) = 0;
  [[nodiscard]] virtual bool is_reached(void* event) = 0;
  /// Sets `bytes` bytes of pinned host memory to `value`.
  virtual void fill(void* stream, void* pinned, unsigned char value, std::int64_t bytes) = 0;
  /// Copies within the memory of this thread's GPU.
  virtual void copy(void* stream, void* destination, const void* source, std::int64_t bytes) = 0;
};

/// An event: a point in the work of a stream.
using EventPointer = std::shared_ptr<void>;

/// Recycles events, because creating an event takes longer than recording it. Thread-safe.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(std::shared_ptr<GpuRuntime> gpu);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Records an event after the current work of `stream`. An event of a capture only orders the work of streams, and
  /// is_reached() does not apply to it.
  [[nodiscard]] EventPointer record(void* stream);

 private:
  [[nodiscard]] EventPointer take();

  std::shared_ptr<GpuRuntime> gpu_;
  std::mutex mutex_;
  std::vector<void*> free_;
};

/// The part of NCCL that the communicator calls. Tests substitute an implementation in host memory. Handles are
/// ncclComm_t and cudaStream_t. Communicators are non-blocking: every call returns at once, and the next call must wait
/// until is_ready() returns true. Functions throw RuntimeError with NCCL's explanation.
class NcclLibrary {
 public:
  virtual ~NcclLibrary();

  /// The version, such as "2.28.9".
  [[nodiscard]] virtual std::string version() const = 0;

  /// Makes the id that the ranks of a new communicator must share.
  [[nodiscard]] virtual std::string make_id() = 0;
  /// Starts to create a communicator of `size` ranks, for the rank at position `index`, on this thread's GPU. `blocks`:
  /// upper limit of the blocks of its kernels, equal on all of its ranks. 0 lets NCCL choose.
  [[nodiscard]] virtual void* begin_communicator(const std::string& id, int size, int index, int blocks) = 0;
  /// False while the last call is in progress. Throws if communication on the communicator has failed.
  [[nodiscard]] virtual bool is_ready(void* communicator) = 0;

  /// Starts a collective among `size` ranks on `stream`. NCCL has no all_to_all.
  virtual void collective(void* communicator, void* stream, const CollectiveCall& call, int size) = 0;
  /// Starts a message on `stream`.
  virtual void send(void* communicator, void* stream, const void* data, std::int64_t bytes, int peer) = 0;
  virtual void receive(void* communicator, void* stream, void* data, std::int64_t bytes, int peer) = 0;
  /// Fuses the calls of this thread between begin_group() and end_group() into one.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;

  /// Starts to end a communicator whose work has ended. Call destroy() when it is ready.
  virtual void finalize(void* communicator) = 0;
  virtual void destroy(void* communicator) = 0;
  /// Ends a communicator in any state, including its communication in progress.
  virtual void abort(void* communicator) noexcept = 0;
};

/// The libraries that the communicator uses.
struct Backend {
  std::shared_ptr<NcclLibrary> nccl;
  std::shared_ptr<GpuRuntime> gpu;
};

/// How the libraries are loaded when the first rank connects. Compiling needs none.
struct BackendLoader {
  /// The runtime of the device's streams, such as "cuda".
  std::string runtime;
  /// \throws ConfigurationError if a library is missing.
  std::function<Backend()> load;
};

/// Sets environment variables that NCCL and CUDA read when they start, unless they are set. Must be called while the
/// process has one thread, and before either library starts.
void set_library_environment();

}  // namespace strata::nccl
