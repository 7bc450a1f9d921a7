#pragma once

#include "kernels/element_run.cuh"

/// \file
/// Rows that a whole block reads once, with any alignment. For example, rows of 50257 logits start anywhere.

namespace strata::cuda {

inline constexpr int kWideRowThreads = 512;

/// Calls function.operator()<N>(column) for each of the thread's runs of N columns. If all rows have the same
/// alignment, runs have 16 bytes, except for single columns before the first and after the last run. Otherwise all runs
/// are single columns.
template <class T, class Function, class... Rows>
__device__ __forceinline__ void for_each_in_wide_row(int columns, const Function& function, const T* row,
                                                     const Rows*... others) {
  constexpr int kWidth = kPackedElements<T>;
  [[maybe_unused]] constexpr int kUnroll = sizeof(T) < 8 ? 4 : 1;  // f64 functions need many registers
  const auto place = [](const T* from) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % 16 / sizeof(T));
  };
  const bool alike = ((place(others) == place(row)) && ...);
  const int unaligned = (kWidth - place(row)) % kWidth;
  const int head = alike && unaligned < columns ? unaligned : columns;
  const int tail = columns - (columns - head) % kWidth;
  const int first = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);

#pragma unroll 1
  for (int column = first; column < head; column += threads) function.template operator()<1>(column);
#pragma unroll kUnroll
  for (int column = head + first * kWidth; column < tail; column += threads * kWidth) {
    function.template operator()<kWidth>(column);
  }
#pragma unroll 1
  for (int column = tail + first; column < columns; column += threads) function.template operator()<1>(column);
}

}  // namespace strata::cuda
