#pragma once

#include <cstdint>
#include <cstring>

#include "language/dialect.hpp"
#include "language/element.hpp"

/// \file
/// Packs: runs of elements that one instruction loads or stores.

namespace strata::cuda {

/// Number of elements in a 16-byte access.
template <class T>
inline constexpr int kPackedElements = static_cast<int>(16 / sizeof(T));

/// N neighbouring elements of 4, 8 or 16 bytes in total, aligned to that size.
template <class T, int N = kPackedElements<T>>
struct alignas(sizeof(T) * N) Packed {
  static_assert(sizeof(T) * N == 4 || sizeof(T) * N == 8 || sizeof(T) * N == 16);
  T values[N];

  __device__ __forceinline__ T& operator[](int index) { return values[index]; }
  __device__ __forceinline__ const T& operator[](int index) const { return values[index]; }
};

namespace detail {
template <int Bytes>
struct Word;
template <>
struct Word<4> {
  using type = unsigned;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};
template <class T, int N>
using WordOf = typename Word<static_cast<int>(sizeof(T)) * N>::type;
}  // namespace detail

/// Loads a pack with one instruction. `from` is aligned to the size of the pack.
template <class T, int N = kPackedElements<T>>
__device__ __forceinline__ Packed<T, N> load_packed(const T* from) {
  using Word = detail::WordOf<T, N>;
#ifndef __CUDACC__
  emulator::check_aligned(from, sizeof(Word));
#endif
  const Word word = *reinterpret_cast<const Word*>(from);
  Packed<T, N> result;
  memcpy(&result, &word, sizeof(word));
  return result;
}

/// Stores a pack with one instruction. `to` is aligned to the size of the pack.
template <class T, int N>
__device__ __forceinline__ void store_packed(T* to, const Packed<T, N>& values) {
  using Word = detail::WordOf<T, N>;
#ifndef __CUDACC__
  emulator::check_aligned(to, sizeof(Word));
#endif
  Word word;
  memcpy(&word, &values, sizeof(word));
  *reinterpret_cast<Word*>(to) = word;
}

/// True if packs of this size may be loaded from the address.
inline bool is_aligned(const void* address, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

}  // namespace strata::cuda
