#pragma once

#include "kernels/element_run.cuh"
#include "kernels/global_elements.cuh"
#include "language/random_stream.hpp"

namespace strata::cuda {

inline constexpr int kDropoutThreads = 256;

/// Elements per thread, at least those that share a block of random words.
template <class T>
inline constexpr int kDropoutRun = kRunLength<T> < 4 ? 4 : kRunLength<T>;

/// The mask and factor of dropout. A: the type in which elements are computed.
template <class A>
struct DropoutMask {
  RandomStream stream;
  /// Elements whose random word is below the threshold are dropped.
  std::uint32_t threshold = 0;
  A kept = 1;

  __device__ __forceinline__ A apply(std::uint32_t word, A x) const { return word >= threshold ? x * kept : A{0}; }

  __device__ __forceinline__ void apply(std::uint64_t key, std::uint64_t global, A (&x)[1]) const {
    x[0] = apply(random_word(key, global), x[0]);
  }
  /// Factors of N neighbours. The first one has the first word of its block.
  template <int N>
  __device__ __forceinline__ void apply(std::uint64_t key, std::uint64_t global, A (&x)[N]) const {
#pragma unroll
    for (int begin = 0; begin < N; begin += 4) {
      const RandomWords random = philox(key, global / 4 + begin / 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[begin + i] = apply(random.words[i], x[begin + i]);
    }
  }
};

/// The addends of dropout's result.
template <class T>
struct DropoutAddends {
  const T* residual = nullptr;  ///< or null
  /// If true, adds to y.
  bool accumulate = false;

  template <int N, class A>
  __device__ __forceinline__ void add(std::int64_t at, const T* y, A (&x)[N]) const {
    if (residual != nullptr) add_run(residual + at, x);
    if (accumulate) add_run(y + at, x);
  }

 private:
  template <int N, class A>
  static __device__ __forceinline__ void add_run(const T* from, A (&x)[N]) {
    A other[N];
    load_run<N>(from, other);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += other[i];
  }
};

/// y = dropout(x) + addends. x and the residual may alias y. `packed`: addresses are aligned, and each run of
/// neighbours is also one in the step that starts at a multiple of four.
template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout(DropoutMask<Accumulate<T>> mask, GlobalElements elements, DropoutAddends<T> addends, std::int64_t size,
            bool packed, const T* x, T* y) {
  const std::uint64_t key = mask.stream.key();
  const auto drop = [&]<int N>(std::integral_constant<int, N> /*run*/, std::int64_t at) {
    Accumulate<T> values[N];
    load_run<N>(x + at, values);
    mask.apply(key, elements(at), values);
    addends.add(at, y, values);
    store_run<N>(y + at, values);
  };
  constexpr int kRun = kDropoutRun<T>;
  const std::int64_t index = std::int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x;
  if (packed) {
    if (index * kRun < size) drop(std::integral_constant<int, kRun>{}, index * kRun);
  } else {
    if (index < size) drop(std::integral_constant<int, 1>{}, index);
  }
}

}  // namespace strata::cuda
