#pragma once

#include <cstdint>
#include <mutex>
#include <set>

namespace strata::cuda::emulator {

/// The memory that this process has taken on one emulated GPU. As on a real GPU, kernels take memory when they are
/// loaded, at the latest at their first launch, and each graph takes memory too. Thread-safe.
class EmulatedGpu {
 public:
  static constexpr int kCount = 5;
  static constexpr std::int64_t kMemoryBytes = std::int64_t{2} << 30;
  /// Bytes that all kernels together take, and bytes that one graph takes.
  static constexpr std::int64_t kKernelBytes = std::int64_t{64} << 20;
  static constexpr std::int64_t kGraphBytes = std::int64_t{1} << 20;

  static EmulatedGpu& at(int gpu);

  [[nodiscard]] std::int64_t free_bytes() const;
  /// Takes memory. \throws RuntimeError if fewer than `bytes` bytes are free.
  void take(std::int64_t bytes);
  void give_back(std::int64_t bytes) noexcept;

  /// Loads the kernels if they are not loaded. \throws RuntimeError as take().
  void load_kernels();

  /// Records that this GPU may access the memory of GPU `other`.
  void reach(int other);
  [[nodiscard]] std::set<int> reachable() const;

 private:
  mutable std::mutex mutex_;
  std::int64_t taken_ = 0;
  bool has_kernels_ = false;
  std::set<int> reachable_;
};

}  // namespace strata::cuda::emulator
