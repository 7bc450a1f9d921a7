#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

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

}  // namespace strata::nccl
