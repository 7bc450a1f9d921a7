#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "language/stream.hpp"

/// \file
/// What the device needs from the CUDA runtime. Two implementations: cuda_runtime.cpp, and the emulator's on host
/// memory, where everything is done when a call returns. All functions throw RuntimeError with the runtime's own words
/// when a call fails.

namespace strata::cuda::runtime {

/// Whose streams these are, for strata::NativeStream; empty: nobody's.
extern const std::string_view name;

struct GpuProperties {
  std::string name;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;
  std::int64_t memory_bytes = 0;
};

/// \throws ConfigurationError where there is no driver or no GPU.
int gpu_count();
GpuProperties gpu_properties(int gpu);

/// The GPU of all calls of this thread from now on.
void use_gpu(int gpu);
/// Lets kernels of `gpu` read the memory of those other GPUs that it can reach: ranks of one process reduce over it.
void enable_peer_access(int gpu);
/// Of the GPU in use, as far as nobody has taken it.
std::int64_t free_memory_bytes();

/// Zeroed memory of the GPU in use.
std::shared_ptr<void> allocate(std::int64_t bytes);
/// Host memory that copies read and write without a copy between.
std::shared_ptr<void> allocate_pinned(std::int64_t bytes);

/// Streams and events live as long as what is returned. Work on streams with priority goes first.
std::shared_ptr<void> create_stream(bool priority);
std::shared_ptr<void> create_event();
void record_event(void* event, Stream stream);
void wait_event(Stream stream, void* event);
/// Return when the stream is idle, or the event's point is reached.
void synchronize_stream(Stream stream);
void synchronize_event(void* event);

/// Between any two of pinned host memory and memory of GPUs.
void copy(Stream stream, void* destination, const void* source, std::int64_t bytes);
/// `rows` runs of `width` bytes, which begin `pitch` bytes apart.
void copy_rows(Stream stream, void* destination, std::int64_t destination_pitch, const void* source,
               std::int64_t source_pitch, std::int64_t width, std::int64_t rows);
void fill_zero(Stream stream, void* destination, std::int64_t bytes);
/// Whether `address` is in pinned host memory.
bool is_pinned(const void* address);

/// What this thread puts on the stream from now on is recorded instead of done. Until the end of the capture it must
/// neither allocate nor wait; what other threads do on other streams is nothing to it.
void begin_capture(Stream stream);
/// What was recorded, ready to be launched. The capture has ended, also where this throws because there was work that
/// cannot be recorded.
std::shared_ptr<void> end_capture(Stream stream);
/// Ends the capture and forgets what was recorded.
void cancel_capture(Stream stream) noexcept;
void launch_graph(void* graph, Stream stream);

}  // namespace strata::cuda::runtime
