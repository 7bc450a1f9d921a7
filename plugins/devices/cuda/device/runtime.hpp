#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "language/element.hpp"

/// \file
/// The part of the CUDA runtime that the device calls. There are two implementations. cuda_runtime.cpp calls CUDA. The
/// emulator works on host memory and finishes all work before a call returns. All functions throw RuntimeError with the
/// runtime's explanation.

namespace strata::cuda {

/// One kernel of each source file of kernels. The build writes it (StrataKernelFiles.cmake).
std::vector<const void*> kernels_of_files();

}  // namespace strata::cuda

namespace strata::cuda::runtime {

/// The runtime that streams belong to, for strata::NativeStream. Empty if no other library can use them.
extern const std::string_view name;
/// KernelDefinition::runtime of the kernels that this runtime executes.
extern const std::string_view kernel_runtime;

struct GpuProperties {
  std::string name;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;
  std::int64_t memory_bytes = 0;
};

/// The number of GPUs. \throws ConfigurationError if there is no driver or no GPU.
int gpu_count();
GpuProperties gpu_properties(int gpu);

/// Makes a GPU current on this thread for all later calls.
void use_gpu(int gpu);
/// Lets kernels of GPU `from` read the memory of GPU `to` if the hardware allows it. Ranks of one process reduce over
/// such memory.
void enable_peer_access(int from, int to);
/// Loads all kernels onto the current GPU, so that no launch has to. `of_each_source`: one kernel of each source file.
void load_kernels(std::span<const void* const> of_each_source);
/// Free bytes of the current GPU.
std::int64_t free_memory_bytes();

/// Allocates zeroed memory on the current GPU.
std::shared_ptr<void> allocate(std::int64_t bytes);
/// Allocates pinned host memory, which copies access without an intermediate buffer.
std::shared_ptr<void> allocate_pinned(std::int64_t bytes);

/// The returned object owns the stream or event. Work on streams with priority is scheduled first.
std::shared_ptr<void> create_stream(bool priority);
std::shared_ptr<void> create_event();
void record_event(void* event, Stream stream);
void wait_event(Stream stream, void* event);
/// The calls return when the stream is idle, or when the event is reached.
void synchronize_stream(Stream stream);
void synchronize_event(void* event);

/// Copies between any two of pinned host memory and memory of GPUs.
void copy(Stream stream, void* destination, const void* source, std::int64_t bytes);
/// Copies `rows` rows of `width` bytes. Consecutive rows start `pitch` bytes apart.
void copy_rows(Stream stream, void* destination, std::int64_t destination_pitch, const void* source,
               std::int64_t source_pitch, std::int64_t width, std::int64_t rows);
void fill_zero(Stream stream, void* destination, std::int64_t bytes);
/// True if `address` is in pinned host memory.
bool is_pinned(const void* address);

/// Starts a capture: later work of this thread on the stream is recorded instead of executed. Until the capture ends,
/// the thread must neither allocate nor wait. Work of other threads on other streams is not affected.
void begin_capture(Stream stream);
/// Ends the capture. \return an executable graph of the recorded work. \throws RuntimeError if some work cannot be
/// recorded; the capture has ended then too.
std::shared_ptr<void> end_capture(Stream stream);
/// Ends the capture and discards the recorded work.
void cancel_capture(Stream stream) noexcept;
void launch_graph(void* graph, Stream stream);

}  // namespace strata::cuda::runtime
