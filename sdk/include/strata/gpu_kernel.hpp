#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/export.hpp"
#include "strata/kernel.hpp"

/// \file
/// How to write kernels for GPUs, and what such a kernel can ask about the GPU and the current step.
///
/// The device makes the GPU current on the calling thread before it calls `prepare` or a launch. A launch enqueues its
/// work on KernelArguments::stream, a cudaStream_t. It neither allocates memory nor waits, because the device captures
/// launches in CUDA graphs. A graph that is captured in one step is launched again in later steps. So a kernel reads
/// values that change from step to step from GpuEnvironment::step_values() and not from KernelArguments::context. Only
/// StepContext::micro_batch is the same in every launch of a graph.
///
/// Example, for an op that multiplies by the learning rate:
///
///   __global__ void multiply(std::int64_t count, const StepValues* step, const float* x, float* y) {
///     const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
///     if (i < count) y[i] = x[i] * static_cast<float>(step->learning_rate);
///   }
///
///   PreparedKernel prepare_multiply(const OpInstance& op, const KernelEnvironment& environment) {
///     const auto& gpu = dynamic_cast<const GpuEnvironment&>(environment);
///     return {[count = kernels::elements(op.results[0]), step = gpu.step_values()](const KernelArguments& arguments) {
///       const auto stream = static_cast<cudaStream_t>(arguments.stream);
///       const auto blocks = static_cast<unsigned>((count + 255) / 256);
///       multiply<<<blocks, 256, 0, stream>>>(count, step, kernels::in<float>(arguments, 0),
///                                            kernels::out<float>(arguments, 0));
///     }};
///   }
///
///   registration.add({.op = "multiply", .runtime = kGpuRuntime, .signature = {"t", "t", false, {DType::f32}},
///                     .prepare = prepare_multiply});

namespace strata {

/// KernelEnvironment::runtime of a GPU.
inline constexpr const char* kGpuRuntime = "cuda";

/// The part of StepContext that changes from step to step, in GPU memory for kernels to read.
struct StepValues {
  /// The optimizer step, counted from 0. An op keys its random numbers by random::step_key(random::stream_base(op.seed,
  /// op.name), step).
  std::uint64_t step = 0;
  /// Updates applied so far, including this step: the t of 1 - beta^t in AdamW. Steps that were skipped because a
  /// gradient was not finite do not count.
  double updates = 1;
  double learning_rate = 0;
  /// Factor of the weight decay of all parameters.
  double weight_decay_factor = 1;
  /// Factor of the loss's gradients. The update divides it out again.
  double loss_scale = 1;

  bool operator==(const StepValues&) const = default;
};

/// Properties of the GPU of a GpuEnvironment.
struct GpuDescription {
  /// The GPU's ordinal in the CUDA runtime, as this process counts.
  int ordinal = 0;
  /// Compute capability: 9.0 is major 9, minor 0.
  int major = 0;
  int minor = 0;
  int multiprocessors = 1;
  /// Most bytes of dynamic shared memory that a block may ask for (cudaDevAttrMaxSharedMemoryPerBlockOptin).
  std::size_t shared_bytes_per_block = std::size_t{48} << 10U;
  /// Pointer to GPU memory. Host code must not dereference it.
  const StepValues* step_values = nullptr;
};

/// The environment of kernels that run on one GPU.
class STRATA_API GpuEnvironment : public KernelEnvironment {
 public:
  /// `runtime`: differs from kGpuRuntime only on a device that takes other kernels, such as an emulator.
  explicit GpuEnvironment(const GpuDescription& gpu, const std::string& runtime = kGpuRuntime);
  ~GpuEnvironment() override;

  [[nodiscard]] int ordinal() const { return gpu_.ordinal; }
  [[nodiscard]] int compute_capability_major() const { return gpu_.major; }
  [[nodiscard]] int compute_capability_minor() const { return gpu_.minor; }
  [[nodiscard]] int multiprocessors() const { return gpu_.multiprocessors; }
  [[nodiscard]] std::size_t shared_bytes_per_block() const { return gpu_.shared_bytes_per_block; }
  [[nodiscard]] const StepValues* step_values() const { return gpu_.step_values; }

 private:
  GpuDescription gpu_;
};

}  // namespace strata
