#pragma once

#include <cstdint>

#include "language/dialect.hpp"
#include "language/element.hpp"

/// \file
/// The matrix units of a warp (mma.sync, ldmatrix; sm_80). All lanes take part. In a fragment, lane l holds the row
/// l / 4 and the columns 2 (l % 4) and 2 (l % 4) + 1 of each 8 by 8 piece, two elements in 32 bits:
///   a[0..3]  A (16 by 16): rows 0-7, columns 0-7; rows 8-15, 0-7; rows 0-7, 8-15; rows 8-15, 8-15
///   b[0..1]  B (16 by 8), of which a lane has column l / 4: rows 0-7; rows 8-15
///   c, d     C and D (16 by 8) in f32: [0], [1] in rows 0-7, [2], [3] in rows 8-15

namespace strata::cuda {

/// d = a · b + c. d may be c.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                             const float (&c)[4]) {
#ifdef __CUDACC__
  static_assert(std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>);
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
#else
  emulator::matrix_multiply_add(d, a, b, c, [](std::uint16_t bits) { return widen(T{bits}); });
#endif
}

/// Loads four 8 by 8 pieces from shared memory: lanes 8 i to 8 i + 7 give the addresses of the rows of piece i, 16
/// bytes each and aligned to as many.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&pieces)[4], const void* row) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"(address)
               : "memory");
#else
  emulator::load_matrices(pieces, 4, row, false);
#endif
}

/// As ldmatrix_x4, every piece transposed: lanes still give the addresses of rows as they lie in memory.
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&pieces)[4], const void* row) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"(address)
               : "memory");
#else
  emulator::load_matrices(pieces, 4, row, true);
#endif
}

/// Two pieces: the addresses of lanes 16 and above are not used.
__device__ __forceinline__ void ldmatrix_x2(std::uint32_t (&pieces)[2], const void* row) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(pieces[0]), "=r"(pieces[1])
               : "r"(address)
               : "memory");
#else
  emulator::load_matrices(pieces, 2, row, false);
#endif
}

__device__ __forceinline__ void ldmatrix_x2_trans(std::uint32_t (&pieces)[2], const void* row) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(pieces[0]), "=r"(pieces[1])
               : "r"(address)
               : "memory");
#else
  emulator::load_matrices(pieces, 2, row, true);
#endif
}

}  // namespace strata::cuda
