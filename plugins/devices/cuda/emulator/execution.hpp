#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "emulator/rough_arithmetic.hpp"

// CUDA's short vector types.
struct alignas(8) uint2 {
  unsigned x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// Position of the running thread. Set at every switch of fibers.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};

namespace strata::cuda::emulator {

/// The order in which blocks run, and in which the threads of a block run between two barriers. The results of a
/// correct kernel do not depend on it.
enum class ThreadOrder : std::uint8_t { ascending, descending };

/// The work of a graph, in order.
using RecordedWork = std::vector<std::function<void()>>;

/// The object that a Stream points to in the emulator. A null Stream runs threads in ascending order.
struct EmulatedStream {
  ThreadOrder order = ThreadOrder::ascending;
  /// Receives the work during a capture.
  RecordedWork* recording = nullptr;
  /// Called before each kernel, if set.
  std::function<void()> before_kernel = nullptr;
  Roughness roughness = Roughness::exact;
};

/// Executes `work`, or records it if the stream is being captured. A null stream is never captured.
template <class Work>
void enqueue(EmulatedStream* stream, Work&& work) {
  if (stream != nullptr && stream->recording != nullptr) {
    stream->recording->emplace_back(std::forward<Work>(work));
  } else {
    work();
  }
}

/// Runs `kernel` for every thread of every block, or records that. \throws RuntimeError for a geometry that some GPU of
/// the supported architectures rejects, for threads that wait for others in vain, and for writes past the dynamic
/// shared memory.
void enqueue_grid(EmulatedStream* stream, const dim3& grid, const dim3& block, std::size_t shared_bytes,
                  std::function<void()> kernel);

/// The dynamic shared memory of the running block, aligned to 128 bytes. It is filled with NaN before each block.
void* dynamic_shared_memory();

/// \throws RuntimeError if `address` is not aligned to `bytes` bytes.
void check_aligned(const void* address, std::size_t bytes);

}  // namespace strata::cuda::emulator
