#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "device/runtime.hpp"
#include "emulator/emulated_gpu.hpp"
#include "emulator/execution.hpp"
#include "strata/error.hpp"

namespace strata::cuda::emulator {

EmulatedGpu& EmulatedGpu::at(int gpu) {
  static std::array<EmulatedGpu, kCount> gpus;
  return gpus.at(static_cast<std::size_t>(gpu));
}

std::int64_t EmulatedGpu::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return kMemoryBytes - taken_;
}

void EmulatedGpu::take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > kMemoryBytes - taken_) {
    throw RuntimeError("the emulated GPU has no " + std::to_string(bytes) + " bytes of memory, but " +
                       std::to_string(kMemoryBytes - taken_) + " of " + std::to_string(kMemoryBytes));
  }
  taken_ += bytes;
}

void EmulatedGpu::give_back(std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
}

void EmulatedGpu::load_kernels() {
  {
    const std::lock_guard lock(mutex_);
    if (has_kernels_) return;
  }
  take(kKernelBytes);
  const std::lock_guard lock(mutex_);
  // Another thread may have loaded the kernels in the meantime.
  if (has_kernels_) taken_ -= kKernelBytes;
  has_kernels_ = true;
}

void EmulatedGpu::reach(int other) {
  const std::lock_guard lock(mutex_);
  reachable_.insert(other);
}

std::set<int> EmulatedGpu::reachable() const {
  const std::lock_guard lock(mutex_);
  return reachable_;
}

}  // namespace strata::cuda::emulator

namespace strata::cuda::runtime {
namespace {

using emulator::EmulatedGpu;

constexpr std::align_val_t kAlignment{256};
/// Allocations of at least this size take physical memory only for the pages that are touched.
constexpr std::int64_t kLargePiece = std::int64_t{64} << 20;

using emulator::Roughness;
using emulator::ThreadOrder;

/// Properties in which the emulated GPUs differ.
struct Kind {
  std::string name;
  ThreadOrder order = ThreadOrder::ascending;
  Roughness roughness = Roughness::exact;
  /// Of an A100 or an H100. Some kernels have larger tiles with more.
  std::size_t shared_bytes_per_block = std::size_t{163} << 10;
};

/// The kind of a GPU. The first two kinds must compute the same bits.
const Kind& kind_of(int gpu) {
  constexpr std::size_t kMoreSharedBytes = std::size_t{227} << 10;
  static const std::array<Kind, EmulatedGpu::kCount> kKinds{
      {{"emulated GPU"},
       {"emulated GPU with threads in descending order", ThreadOrder::descending},
       {"emulated GPU with mixed errors", ThreadOrder::ascending, Roughness::mixed, kMoreSharedBytes},
       {"emulated GPU with high exponentials", ThreadOrder::ascending, Roughness::high, kMoreSharedBytes},
       {"emulated GPU with low exponentials", ThreadOrder::ascending, Roughness::low, kMoreSharedBytes}}};
  return kKinds.at(static_cast<std::size_t>(gpu));
}

thread_local int gpu_in_use = 0;
/// The capture of this thread. Null if there is none.
thread_local std::shared_ptr<emulator::RecordedWork> capture;

emulator::EmulatedStream* native(Stream stream) { return static_cast<emulator::EmulatedStream*>(stream); }

/// \throws RuntimeError if this thread captures, because CUDA forbids the operation `what` then.
void require_no_capture(const char* what) {
  if (capture) throw RuntimeError(std::string("emulated CUDA: ") + what + " is not permitted in a capture");
}

/// The address ranges of allocated pinned host memory.
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
  if (bytes >= kLargePiece) {
    void* const pages =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw RuntimeError("the emulated GPU finds no host memory");
    return {pages, [size](void* each) { ::munmap(each, size); }};
  }
  std::shared_ptr<void> memory(::operator new(size, kAlignment),
                               [](void* each) { ::operator delete(each, kAlignment); });
  std::memset(memory.get(), 0, size);
  return memory;
}

}  // namespace

const std::string_view name = {};
const std::string_view kernel_runtime = "cuda_emulated";

int gpu_count() { return EmulatedGpu::kCount; }

GpuProperties gpu_properties(int gpu) {
  return {.name = kind_of(gpu).name,
          .major = 8,
          .minor = 0,
          .multiprocessors = 4,
          .shared_bytes_per_block = kind_of(gpu).shared_bytes_per_block,
          .memory_bytes = EmulatedGpu::kMemoryBytes};
}

void use_gpu(int gpu) { gpu_in_use = gpu; }
void enable_peer_access(int from, int to) { EmulatedGpu::at(from).reach(to); }

void load_kernels(std::span<const void* const> of_each_source) {
  if (std::find(of_each_source.begin(), of_each_source.end(), nullptr) != of_each_source.end()) {
    throw RuntimeError("emulated CUDA: a source without kernels");
  }
  EmulatedGpu::at(gpu_in_use).load_kernels();
}

std::int64_t free_memory_bytes() { return EmulatedGpu::at(gpu_in_use).free_bytes(); }

std::shared_ptr<void> allocate(std::int64_t bytes) {
  EmulatedGpu& gpu = EmulatedGpu::at(gpu_in_use);
  gpu.take(bytes);
  try {
    const std::shared_ptr<void> memory = allocate_aligned(bytes);
    return {memory.get(), [memory, bytes, &gpu](void*) { gpu.give_back(bytes); }};
  } catch (...) {
    gpu.give_back(bytes);
    throw;
  }
}

std::shared_ptr<void> allocate_pinned(std::int64_t bytes) {
  std::shared_ptr<void> memory = allocate_aligned(bytes);
  PinnedMemory::all().add(memory.get(), bytes);
  return {memory.get(), [memory](void* each) { PinnedMemory::all().remove(each); }};
}

std::shared_ptr<void> create_stream(bool /*priority*/) {
  const auto load = [&gpu = EmulatedGpu::at(gpu_in_use)] { gpu.load_kernels(); };
  const Kind& kind = kind_of(gpu_in_use);
  return std::make_shared<emulator::EmulatedStream>(
      emulator::EmulatedStream{kind.order, nullptr, load, kind.roughness});
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
  const std::shared_ptr<emulator::RecordedWork> recorded = std::exchange(capture, nullptr);
  EmulatedGpu& gpu = EmulatedGpu::at(gpu_in_use);
  gpu.take(EmulatedGpu::kGraphBytes);
  return {recorded.get(), [recorded, &gpu](void*) { gpu.give_back(EmulatedGpu::kGraphBytes); }};
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
