#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

/// \file
/// The collectives at which threads of a block or warp wait for each other, and copies, for which a thread waits.

namespace strata::cuda::emulator {

inline constexpr int kLanes = 32;

enum class Collective : std::uint8_t { block_barrier, warp_barrier, shuffle, vote, matrix_product, matrix_load };

/// The data that one lane contributes to a meeting.
struct LaneData {
  alignas(16) std::array<std::byte, 48> bytes;
};

/// A collective of the lanes of a warp. A lane may read it until that lane reaches the next one.
struct Meeting {
  std::array<LaneData, kLanes> brought;
  /// Lanes that take part. The other lanes have left the kernel.
  std::uint32_t present = 0;
  /// The common result, computed by the first lane that resumes.
  alignas(16) std::array<std::byte, 1024> result;
  bool has_result = false;

  template <class T>
  [[nodiscard]] T from(int lane) const {
    T value;
    std::memcpy(&value, brought[static_cast<std::size_t>(lane)].bytes.data(), sizeof(T));
    return value;
  }
};

/// Waits for all threads of the block.
void block_barrier();
/// Waits for all lanes of the warp that have not left the kernel. `mask` must name all of them.
Meeting& meet(Collective collective, std::uint32_t mask, const void* data, std::size_t bytes);
/// The running thread's lane in its warp.
int current_lane();
[[noreturn]] void fail(const char* what);

template <class T>
Meeting& meet_with(Collective collective, std::uint32_t mask, const T& data) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(LaneData));
  return meet(collective, mask, &data, sizeof(T));
}

/// Returns the value of lane `source` if it is in the same group of `width` lanes, else the lane's own value.
template <class T>
T shuffle(std::uint32_t mask, const T& value, int source, int width) {
  static_assert(std::is_arithmetic_v<T>, "CUDA shuffles numbers");
  const Meeting& meeting = meet_with(Collective::shuffle, mask, value);
  const int group = current_lane() / width;
  if (source < 0 || source / width != group) return value;
  if ((meeting.present >> static_cast<unsigned>(source) & 1U) == 0) fail("a shuffle reads a lane that left the kernel");
  return meeting.from<T>(source);
}

std::uint32_t vote(std::uint32_t mask, bool value);

/// Converts an IEEE binary16 to f32.
float half_to_float(std::uint16_t bits);
/// mma.m16n8k16 of a warp. `widen` converts an element to f32.
void matrix_multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const float (&c)[4],
                         float (*widen)(std::uint16_t));
/// ldmatrix of a warp: four pieces of 8 by 8.
void load_matrices(std::uint32_t (&pieces)[4], const void* row, bool transposed);

/// Starts an asynchronous copy. The emulator copies as late as a GPU may: when the kernel waits for it. So a kernel
/// that reads too early reads old data.
void copy_async(void* shared, const void* global, std::size_t bytes, bool valid);
void commit_copies();
void wait_copies(int pending);

}  // namespace strata::cuda::emulator

inline void __syncthreads() { strata::cuda::emulator::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
  strata::cuda::emulator::meet(strata::cuda::emulator::Collective::warp_barrier, mask, nullptr, 0);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = strata::cuda::emulator::current_lane();
  return strata::cuda::emulator::shuffle(mask, value, lane / width * width + (source & (width - 1)), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
  return strata::cuda::emulator::shuffle(mask, value, strata::cuda::emulator::current_lane() ^ distance, width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance, int width = 32) {
  return strata::cuda::emulator::shuffle(mask, value, strata::cuda::emulator::current_lane() - distance, width);
}

inline unsigned __ballot_sync(unsigned mask, bool value) { return strata::cuda::emulator::vote(mask, value); }
