#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "emulator/vector_types.hpp"

/// Where a thread is. Set whenever another fiber goes on.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;

namespace strata::cuda::emulator {

/// The order in which blocks, and the threads of a block between two barriers, have their turns. A correct kernel
/// doesn't notice.
enum class ThreadOrder : std::uint8_t { ascending, descending };

/// What a graph holds, in order.
using RecordedWork = std::vector<std::function<void()>>;

/// What a Stream points to here; null: threads in ascending order.
struct EmulatedStream {
  ThreadOrder order = ThreadOrder::ascending;
  /// Where work goes in a capture.
  RecordedWork* recording = nullptr;
};

/// Does `work`, or records it where the stream (null: none) captures.
template <class Work>
void enqueue(EmulatedStream* stream, Work&& work) {
  if (stream != nullptr && stream->recording != nullptr) {
    stream->recording->emplace_back(std::forward<Work>(work));
  } else {
    work();
  }
}

/// Runs `kernel` for every thread of every block. \throws RuntimeError for a geometry that no GPU of the supported
/// architectures takes, for threads that wait for others in vain, and for writes behind the dynamic shared memory.
void run_grid(const dim3& grid, const dim3& block, std::size_t shared_bytes, const EmulatedStream* stream,
              const std::function<void()>& kernel);

/// Of the block that runs; aligned to 128 bytes. Filled with NaN before each block.
void* dynamic_shared_memory();

/// \throws RuntimeError if an access of `bytes` bytes would not be aligned to as many.
void check_aligned(const void* address, std::size_t bytes);

}  // namespace strata::cuda::emulator
