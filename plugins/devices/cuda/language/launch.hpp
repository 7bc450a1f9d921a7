#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "language/dialect.hpp"
#include "language/element.hpp"
#ifdef __CUDACC__
#include <set>
#include <string>
#include <utility>

#include "strata/error.hpp"
#endif

namespace strata::cuda {

/// Size of a grid in blocks, or of a block in threads.
struct Extent {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

struct Geometry {
  Extent grid;
  Extent block;
  /// Bytes of dynamic_shared().
  std::size_t shared_bytes = 0;
};

/// Number of blocks that cover `count` items if each block takes `each`.
inline unsigned blocks_for(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

namespace detail {

#ifdef __CUDACC__
/// Bytes of shared memory that a block may use without a request.
inline constexpr std::size_t kUnrequestedSharedBytes = 48 << 10;

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw RuntimeError(std::string(what) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

/// Allows a kernel's blocks all shared memory that the current device gives one block. Each thread asks once. All
/// threads ask for the same size, so that none reduces the limit of another.
inline void allow_all_shared_memory(const void* kernel) {
  thread_local std::set<std::pair<int, const void*>> allowed;
  int device = 0;
  check(cudaGetDevice(&device), "device of a kernel");
  if (allowed.contains({device, kernel})) return;
  int limit = 0;
  check(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory of a device");
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "attributes of a kernel");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             limit - static_cast<int>(attributes.sharedSizeBytes)),
        "shared memory of a kernel");
  allowed.insert({device, kernel});
}

inline void launch_kernel(const void* kernel, const Geometry& geometry, Stream stream, void** arguments) {
  if (geometry.shared_bytes > kUnrequestedSharedBytes) allow_all_shared_memory(kernel);
  const dim3 grid(geometry.grid.x, geometry.grid.y, geometry.grid.z);
  const dim3 block(geometry.block.x, geometry.block.y, geometry.block.z);
  check(cudaLaunchKernel(kernel, grid, block, arguments, geometry.shared_bytes, static_cast<cudaStream_t>(stream)),
        "launch of a kernel");
}
#endif

}  // namespace detail

/// Enqueues a kernel. A grid without blocks does nothing. In the emulator the kernel has run when the call returns,
/// unless the stream captures. \throws RuntimeError if the geometry is impossible.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Geometry& geometry, Stream stream, Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "as many arguments as the kernel has parameters");
  if (geometry.grid.x == 0 || geometry.grid.y == 0 || geometry.grid.z == 0) return;
  std::tuple<Parameters...> values{static_cast<Parameters>(arguments)...};
#ifdef __CUDACC__
  std::apply(
      [&](auto&... each) {
        std::array<void*, sizeof...(Parameters) + 1> addresses{const_cast<void*>(static_cast<const void*>(&each))...};
        detail::launch_kernel(reinterpret_cast<const void*>(kernel), geometry, stream, addresses.data());
      },
      values);
#else
  const Extent& grid = geometry.grid;
  const Extent& block = geometry.block;
  emulator::enqueue_grid(static_cast<emulator::EmulatedStream*>(stream), {grid.x, grid.y, grid.z},
                         {block.x, block.y, block.z}, geometry.shared_bytes,
                         [kernel, values] { std::apply(kernel, values); });
#endif
}

}  // namespace strata::cuda
