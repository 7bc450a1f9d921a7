#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "device/runtime.hpp"
#include "emulator/execution.hpp"
#include "strata/error.hpp"

namespace strata::cuda::runtime {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr std::int64_t kMemoryBytes = std::int64_t{2} << 30;

/// Two GPUs that differ in the order of threads: what they compute must not differ.
constexpr emulator::ThreadOrder kOrders[] = {emulator::ThreadOrder::ascending, emulator::ThreadOrder::descending};
constexpr int kGpus = 2;

thread_local int gpu_in_use = 0;
/// What this thread captures; null: it does not.
thread_local std::shared_ptr<emulator::RecordedWork> capture;

emulator::EmulatedStream* native(Stream stream) { return static_cast<emulator::EmulatedStream*>(stream); }

/// What CUDA forbids a thread that captures, at the cost of the capture.
void require_no_capture(const char* what) {
  if (capture) throw RuntimeError(std::string("emulated CUDA: ") + what + " is not permitted in a capture");
}

/// The pinned host memory there is: where each piece begins and ends.
class PinnedMemory {
 public:
  static PinnedMemory& all() {
    static PinnedMemory memory;
    return memory;
  }
  void add(const void* begin, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    ends_[begin] = static_cast<const char*>(begin) + bytes;
  }
  void remove(const void* begin) {
    const std::lock_guard lock(mutex_);
    ends_.erase(begin);
  }
  [[nodiscard]] bool holds(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto after = ends_.upper_bound(address);
    return after != ends_.begin() && std::less<>{}(address, std::prev(after)->second);
  }

 private:
  std::mutex mutex_;
  std::map<const void*, const void*, std::less<>> ends_;
};

std::shared_ptr<void> allocate_aligned(std::int64_t bytes) {
  require_no_capture("an allocation");
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(1, bytes));
  std::shared_ptr<void> memory(::operator new(size, kAlignment),
                               [](void* each) { ::operator delete(each, kAlignment); });
  std::memset(memory.get(), 0, size);
  return memory;
}

}  // namespace

const std::string_view name = {};

int gpu_count() { return kGpus; }

GpuProperties gpu_properties(int gpu) {
  return {.name = gpu == 0 ? "emulated GPU" : "emulated GPU with threads in descending order",
          .major = 8,
          .minor = 0,
          .multiprocessors = 4,
          .shared_bytes_per_block = 163 << 10,
          .memory_bytes = kMemoryBytes};
}

void use_gpu(int gpu) { gpu_in_use = gpu; }
void enable_peer_access(int /*gpu*/) {}

std::int64_t free_memory_bytes() { return kMemoryBytes; }

std::shared_ptr<void> allocate(std::int64_t bytes) {
  if (bytes > kMemoryBytes) {
    throw RuntimeError("the emulated GPU has no " + std::to_string(bytes) + " bytes of memory, but " +
                       std::to_string(kMemoryBytes));
  }
  return allocate_aligned(bytes);
}

std::shared_ptr<void> allocate_pinned(std::int64_t bytes) {
  std::shared_ptr<void> memory = allocate_aligned(bytes);
  PinnedMemory::all().add(memory.get(), bytes);
  return {memory.get(), [memory](void* each) { PinnedMemory::all().remove(each); }};
}

std::shared_ptr<void> create_stream(bool /*priority*/) {
  return std::make_shared<emulator::EmulatedStream>(emulator::EmulatedStream{kOrders[gpu_in_use]});
}

std::shared_ptr<void> create_event() { return std::make_shared<int>(); }

void record_event(void* /*event*/, Stream /*stream*/) {}
void wait_event(Stream /*stream*/, void* /*event*/) {}
void synchronize_stream(Stream /*stream*/) { require_no_capture("waiting for a stream"); }
void synchronize_event(void* /*event*/) { require_no_capture("waiting for an event"); }

void copy(Stream stream, void* destination, const void* source, std::int64_t bytes) {
  emulator::enqueue(native(stream), [=] { std::memmove(destination, source, static_cast<std::size_t>(bytes)); });
}

void copy_rows(Stream stream, void* destination, std::int64_t destination_pitch, const void* source,
               std::int64_t source_pitch, std::int64_t width, std::int64_t rows) {
  emulator::enqueue(native(stream), [=] {
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memmove(static_cast<char*>(destination) + row * destination_pitch,
                   static_cast<const char*>(source) + row * source_pitch, static_cast<std::size_t>(width));
    }
  });
}

void fill_zero(Stream stream, void* destination, std::int64_t bytes) {
  emulator::enqueue(native(stream), [=] { std::memset(destination, 0, static_cast<std::size_t>(bytes)); });
}

bool is_pinned(const void* address) { return PinnedMemory::all().holds(address); }

void begin_capture(Stream stream) {
  require_no_capture("another capture");
  capture = std::make_shared<emulator::RecordedWork>();
  native(stream)->recording = capture.get();
}

std::shared_ptr<void> end_capture(Stream stream) {
  native(stream)->recording = nullptr;
  return std::exchange(capture, nullptr);
}

void cancel_capture(Stream stream) noexcept {
  native(stream)->recording = nullptr;
  capture = nullptr;
}

void launch_graph(void* graph, Stream /*stream*/) {
  require_no_capture("the launch of a graph");
  for (const std::function<void()>& work : *static_cast<emulator::RecordedWork*>(graph)) work();
}

}  // namespace strata::cuda::runtime
