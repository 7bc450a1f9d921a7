#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace strata::nccl {

/// What the communicator uses of the CUDA runtime; tests have one of their own. Handles are cudaStream_t and
/// cudaEvent_t. Calls throw RuntimeError.
class GpuRuntime {
 public:
  virtual ~GpuRuntime();

  /// Makes a GPU this thread's.
  virtual void use_device(int device) = 0;
  [[nodiscard]] virtual void* create_stream() = 0;
  virtual void destroy_stream(void* stream) noexcept = 0;
  [[nodiscard]] virtual void* create_event() = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record(void* event, void* stream) = 0;
  /// In a capture: every launch of the graph records the event, and once it is launched is_reached() tells of it. What
  /// record() records in a capture orders the work of streams and nothing else.
  virtual void record_in_graph(void* event, void* stream) = 0;
  /// Makes later work of the stream wait for what was recorded.
  virtual void wait(void* stream, void* event) = 0;
  [[nodiscard]] virtual bool is_reached(void* event) = 0;
  /// Between places of this thread's GPU.
  virtual void copy(void* stream, void* destination, const void* source, std::int64_t bytes) = 0;
};

/// A point of a stream's work.
using EventPointer = std::shared_ptr<void>;

/// Events that are used again, since making one takes longer than recording it. Safe to use from several threads.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(std::shared_ptr<GpuRuntime> gpu);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// The point after the work that is on `stream` now.
  [[nodiscard]] EventPointer record(void* stream);
  /// In a capture: the same point of every launch of the graph.
  [[nodiscard]] EventPointer record_in_graph(void* stream);

 private:
  [[nodiscard]] EventPointer take();

  std::shared_ptr<GpuRuntime> gpu_;
  std::mutex mutex_;
  std::vector<void*> free_;
};

}  // namespace strata::nccl
