#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "device/runtime.hpp"
#include "emulator/execution.hpp"
#include "strata/error.hpp"

namespace strata::cuda::runtime {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr std::int64_t kMemoryBytes = std::int64_t{2} << 30;

/// Two GPUs that differ in the order of threads: what they compute must not differ.
const emulator::EmulatedStream kStreams[] = {{emulator::ThreadOrder::ascending}, {emulator::ThreadOrder::descending}};
constexpr int kGpus = 2;

thread_local int gpu_in_use = 0;

std::shared_ptr<void> allocate_aligned(std::int64_t bytes) {
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

std::shared_ptr<void> allocate_pinned(std::int64_t bytes) { return allocate_aligned(bytes); }

std::shared_ptr<void> create_stream(bool /*priority*/) {
  return std::make_shared<emulator::EmulatedStream>(kStreams[gpu_in_use]);
}

std::shared_ptr<void> create_event() { return std::make_shared<int>(); }

void record_event(void* /*event*/, Stream /*stream*/) {}
void wait_event(Stream /*stream*/, void* /*event*/) {}
void synchronize_stream(Stream /*stream*/) {}
void synchronize_event(void* /*event*/) {}

void copy(Stream /*stream*/, void* destination, const void* source, std::int64_t bytes) {
  std::memmove(destination, source, static_cast<std::size_t>(bytes));
}

void copy_rows(Stream /*stream*/, void* destination, std::int64_t destination_pitch, const void* source,
               std::int64_t source_pitch, std::int64_t width, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memmove(static_cast<char*>(destination) + row * destination_pitch,
                 static_cast<const char*>(source) + row * source_pitch, static_cast<std::size_t>(width));
  }
}

void fill_zero(Stream /*stream*/, void* destination, std::int64_t bytes) {
  std::memset(destination, 0, static_cast<std::size_t>(bytes));
}

bool is_pinned(const void* /*address*/) { return false; }

}  // namespace strata::cuda::runtime
