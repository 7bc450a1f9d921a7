#include "emulator/execution.hpp"

#include "emulator/block.hpp"
#include "strata/error.hpp"

namespace strata::cuda::emulator {
namespace {

// The block size that every GPU of compute capability 8.0 and above supports.
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostThreadsInZ = 64;
constexpr unsigned kMostBlocksInYAndZ = 65535;
constexpr unsigned kMostBlocksInX = 0x7FFFFFFF;
constexpr std::size_t kMostSharedBytes = 163 << 10;

void check_geometry(const dim3& grid, const dim3& block, std::size_t shared_bytes) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > kMostThreadsInZ) {
    throw RuntimeError("a kernel is launched with blocks of " + std::to_string(threads) + " threads; 1 to " +
                       std::to_string(kMostThreads) + " are possible, " + std::to_string(kMostThreadsInZ) + " in z");
  }
  if (grid.x > kMostBlocksInX || grid.y > kMostBlocksInYAndZ || grid.z > kMostBlocksInYAndZ) {
    throw RuntimeError("a kernel is launched with a grid of " + std::to_string(grid.x) + " by " +
                       std::to_string(grid.y) + " by " + std::to_string(grid.z) + " blocks; y and z go to " +
                       std::to_string(kMostBlocksInYAndZ));
  }
  if (shared_bytes > kMostSharedBytes) {
    throw RuntimeError("a kernel is launched with " + std::to_string(shared_bytes) +
                       " bytes of shared memory; a block of a GPU with compute capability 8.0 has up to " +
                       std::to_string(kMostSharedBytes));
  }
}

void run_grid(const dim3& grid, const dim3& block, std::size_t shared_bytes, const EmulatedStream* stream,
              const std::function<void()>& kernel) {
  check_geometry(grid, block, shared_bytes);
  if (stream != nullptr && stream->before_kernel) stream->before_kernel();
  const RoughArithmetic arithmetic(stream == nullptr ? Roughness::exact : stream->roughness);
  BlockRunner& runner = BlockRunner::of_this_thread();
  const ThreadOrder order = stream == nullptr ? ThreadOrder::ascending : stream->order;
  runner.prepare(block, shared_bytes, order);
  gridDim = grid;
  blockDim = block;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t number = order == ThreadOrder::ascending ? i : blocks - 1 - i;
    runner.run({static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                static_cast<unsigned>(number / grid.x / grid.y)},
               kernel);
  }
}

}  // namespace

void enqueue_grid(EmulatedStream* stream, const dim3& grid, const dim3& block, std::size_t shared_bytes,
                  std::function<void()> kernel) {
  enqueue(stream, [=, kernel = std::move(kernel)] { run_grid(grid, block, shared_bytes, stream, kernel); });
}

void* dynamic_shared_memory() { return BlockRunner::of_this_thread().shared_memory(); }

void check_aligned(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) return;
  throw RuntimeError("a kernel accesses " + std::to_string(bytes) + " bytes at an address that is no multiple of it");
}

}  // namespace strata::cuda::emulator
