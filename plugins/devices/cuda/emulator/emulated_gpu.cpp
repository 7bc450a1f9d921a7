#include "emulator/emulated_gpu.hpp"

#include <array>
#include <string>

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
