#pragma once

#include <cstdint>
#include <type_traits>

#include "language/language.hpp"

namespace strata::cuda {

// The matrix units of a warpgroup, four warps (wgmma; only in code for sm_90a). Each warp has 16 of the 64 rows of a
// product, in the layout of mma_m16n8k16's results. Factors in shared memory are panels of 64 columns, whose rows of
// 128 bytes are swizzled: chunk c of 16 bytes of row r is at place c xor (r mod 8). Panels start at multiples of 1024
// bytes.

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupRows = 64;
inline constexpr int kWarpgroupColumns = 64;
/// The accumulators of 64 columns.
using WarpgroupSums = float[kWarpgroupColumns / 8][4];

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kHasWarpgroupUnits = true;

/// The descriptor of a factor in shared memory, whose groups of eight rows are 1024 bytes apart.
__device__ __forceinline__ std::uint64_t warpgroup_factor(const void* shared) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kGroupStride = std::uint64_t{1024 >> 4} << 32;
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  return kSwizzle128 | kGroupStride | std::uint64_t{1} << 16 | ((address & 0x3FFFFU) >> 4);
}
#else
inline constexpr bool kHasWarpgroupUnits = false;
#endif

/// Begins a series of products. Shared memory that other threads wrote before a barrier may be read.
__device__ __forceinline__ void begin_warpgroup_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Ends the series, and waits until its results are there and its factors are no longer read.
__device__ __forceinline__ void end_warpgroup_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}

/// Makes writes to shared memory visible to the matrix units of warpgroups. Each thread calls it between its writes and
/// the barrier.
__device__ __forceinline__ void publish_to_warpgroup_units() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define STRATA_WARPGROUP_SUMS                                                                                       \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
  "%30,%31}"
#define STRATA_WARPGROUP_OPERANDS(d)                                                                           \
  "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),     \
      "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), \
      "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), \
      "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
      "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])
#endif

/// d = a · bᵀ, or d += a · bᵀ: 64 rows of `a` and 64 of `b`, 16 columns of both.
template <class T>
__device__ __forceinline__ void warpgroup_multiply_transposed([[maybe_unused]] WarpgroupSums& d,
                                                              [[maybe_unused]] const T* a, [[maybe_unused]] const T* b,
                                                              [[maybe_unused]] bool adds) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " STRATA_WARPGROUP_SUMS ", %32, %33, p, 1, 1, 0, 0;}"
        : STRATA_WARPGROUP_OPERANDS(d)
        : "l"(warpgroup_factor(a)), "l"(warpgroup_factor(b)), "r"(adds ? 1 : 0));
  } else {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " STRATA_WARPGROUP_SUMS ", %32, %33, p, 1, 1, 0, 0;}"
        : STRATA_WARPGROUP_OPERANDS(d)
        : "l"(warpgroup_factor(a)), "l"(warpgroup_factor(b)), "r"(adds ? 1 : 0));
  }
#endif
}

/// d += a · b: 16 columns of `a` in registers, in the layout of mma_m16n8k16, and 16 rows of `b`.
template <class T>
__device__ __forceinline__ void warpgroup_multiply_add([[maybe_unused]] WarpgroupSums& d,
                                                       [[maybe_unused]] const std::uint32_t (&a)[4],
                                                       [[maybe_unused]] const T* b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " STRATA_WARPGROUP_SUMS
                 ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : STRATA_WARPGROUP_OPERANDS(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(warpgroup_factor(b)));
  } else {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " STRATA_WARPGROUP_SUMS
                 ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : STRATA_WARPGROUP_OPERANDS(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(warpgroup_factor(b)));
  }
#endif
}

}  // namespace strata::cuda
