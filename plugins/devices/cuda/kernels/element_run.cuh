#pragma once

#include <initializer_list>

#include "language/language.hpp"

/// \file
/// Runs of neighbouring elements of several types. They are moved in accesses of 16 bytes and held in the type of the
/// computation.

namespace strata::cuda {

/// The type in which elements of several types are computed together.
template <class... T>
using Computed = std::conditional_t<std::disjunction_v<std::is_same<T, double>...>, double, float>;

namespace detail {
constexpr int greatest(std::initializer_list<int> values) {
  int result = 0;
  for (const int value : values) result = result < value ? value : result;
  return result;
}
}  // namespace detail

/// Length of a run for which the shortest of the types fills an access.
template <class... T>
inline constexpr int kRunLength = detail::greatest({kPackedElements<T>...});

/// True if runs at multiples of their length may be moved by accesses of 16 bytes.
template <class... T>
bool are_aligned(const T*... addresses) {
  return (is_aligned(addresses) && ...);
}

template <class A, class T>
__device__ __forceinline__ A to_computed(T element) {
  if constexpr (std::is_same_v<A, T>) {
    return element;
  } else {
    return static_cast<A>(widen(element));
  }
}

template <class T, class A>
__device__ __forceinline__ T to_element(A value) {
  if constexpr (std::is_same_v<A, T>) {
    return value;
  } else {
    return narrow<T>(value);
  }
}

/// N neighbours in memory. They fill one access or several accesses of 16 bytes.
template <class T, int N>
struct ElementRun {
  static constexpr int kPack = N < kPackedElements<T> ? N : kPackedElements<T>;
  Packed<T, kPack> packs[N / kPack];

  /// `from` is aligned to 16 bytes, or to the size of the run if that is smaller.
  __device__ __forceinline__ void load(const T* from) {
#pragma unroll
    for (int i = 0; i < N / kPack; ++i) packs[i] = load_packed<T, kPack>(from + i * kPack);
  }
  __device__ __forceinline__ T operator[](int i) const { return packs[i / kPack][i % kPack]; }
};

/// Loads N neighbours. The alignment of the address is that of ElementRun::load(). A run of one needs no alignment.
template <int N, class A, class T>
__device__ __forceinline__ void load_run(const T* from, A (&values)[N]) {
  if constexpr (N == 1) {
    values[0] = to_computed<A>(*from);
  } else {
    ElementRun<T, N> run;
    run.load(from);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = to_computed<A>(run[i]);
  }
}

/// Stores N neighbours. Alignment as for load_run().
template <int N, class A, class T>
__device__ __forceinline__ void store_run(T* to, const A (&values)[N]) {
  if constexpr (N == 1) {
    *to = to_element<T>(values[0]);
  } else {
    constexpr int kPack = N < kPackedElements<T> ? N : kPackedElements<T>;
#pragma unroll
    for (int begin = 0; begin < N; begin += kPack) {
      Packed<T, kPack> pack;
#pragma unroll
      for (int i = 0; i < kPack; ++i) pack[i] = to_element<T>(values[begin + i]);
      store_packed(to + begin, pack);
    }
  }
}

/// Calls function(i) for this thread's share of [begin, end), the elements that are in no run. All threads of the grid
/// take elements in turn.
template <class Function>
__device__ __forceinline__ void for_each_single(std::int64_t begin, std::int64_t end, const Function& function) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (std::int64_t i = begin + thread; i < end; i += threads) function(i);
}

}  // namespace strata::cuda
