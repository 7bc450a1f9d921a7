#include "emulator/block.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "emulator/execution.hpp"
#include "strata/error.hpp"

namespace strata::cuda::emulator {
namespace {

constexpr std::align_val_t kSharedAlignment{128};
// The address sanitizer detects writes past an allocation by itself.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kGuardBytes = 0;
#else
constexpr std::size_t kGuardBytes = 128;
#endif
constexpr unsigned char kGuard = 0xA5;
constexpr unsigned char kNotANumber = 0xFF;

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::block_barrier:
      return "__syncthreads";
    case Collective::warp_barrier:
      return "__syncwarp";
    case Collective::shuffle:
      return "a shuffle";
    case Collective::vote:
      return "a vote";
    case Collective::matrix_product:
      return "mma";
    default:
      return "ldmatrix";
  }
}

std::string to_string(const uint3& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

/// Calls function(i) for all i of [begin, end) in the given order.
template <class Function>
void in_order(ThreadOrder order, std::size_t begin, std::size_t end, const Function& function) {
  for (std::size_t i = begin; i < end; ++i) function(order == ThreadOrder::ascending ? i : begin + end - 1 - i);
}

}  // namespace

void BlockRunner::FreeShared::operator()(void* memory) const { ::operator delete(memory, kSharedAlignment); }

BlockRunner& BlockRunner::of_this_thread() {
  static thread_local BlockRunner runner;
  return runner;
}

void BlockRunner::prepare(const dim3& block, std::size_t shared_bytes, ThreadOrder order) {
  order_ = order;
  const std::size_t count = std::size_t{block.x} * block.y * block.z;
  threads_.resize(count);
  if (fibers_.size() < count) fibers_.resize(count);
  warps_.resize((count + kLanes - 1) / kLanes);
  for (std::size_t i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    const auto rank = static_cast<unsigned>(i);
    thread.index = {rank % block.x, rank / block.x % block.y, rank / block.x / block.y};
    thread.rank = i;
    thread.warp = i / kLanes;
    thread.lane = static_cast<int>(i % kLanes);
  }
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    warps_[i].begin = i * kLanes;
    warps_[i].end = std::min(count, (i + 1) * kLanes);
  }
  shared_.reset(::operator new(std::max<std::size_t>(1, shared_bytes + kGuardBytes), kSharedAlignment));
  shared_bytes_ = shared_bytes;
}

void BlockRunner::run(const uint3& block_index, const std::function<void()>& kernel) {
  kernel_ = &kernel;
  blockIdx = block_index;
  std::memset(shared_.get(), kNotANumber, shared_bytes_);
  unsigned char* guard = static_cast<unsigned char*>(shared_.get()) + shared_bytes_;
  std::memset(guard, kGuard, kGuardBytes);
  for (Thread& thread : threads_) {
    thread.status = ThreadStatus::runnable;
    thread.meetings = 0;
    thread.copies.clear();
    thread.copy_group = 0;
  }
  run_to_end();
  if (std::any_of(guard, guard + kGuardBytes, [](unsigned char byte) { return byte != kGuard; })) {
    throw RuntimeError("a kernel wrote behind its " + std::to_string(shared_bytes_) +
                       " bytes of dynamic shared memory");
  }
}

void BlockRunner::run_to_end() {
  for (;;) {
    bool advanced = false;
    in_order(order_, 0, warps_.size(), [&](std::size_t i) { advanced |= run_warp(warps_[i]); });
    const bool ended = std::all_of(threads_.begin(), threads_.end(),
                                   [](const Thread& thread) { return thread.status == ThreadStatus::ended; });
    if (ended) return;
    if (!release_block() && !advanced) abandon(std::make_exception_ptr(RuntimeError(describe_divergence())));
  }
}

bool BlockRunner::run_warp(Warp& warp) {
  bool advanced = false;
  do {
    in_order(order_, warp.begin, warp.end, [&](std::size_t i) {
      if (threads_[i].status != ThreadStatus::runnable) return;
      run_thread(threads_[i]);
      advanced = true;
    });
  } while (release_warp(warp));
  return advanced;
}

std::unique_ptr<Fiber> BlockRunner::make_fiber(std::size_t rank) {
  return std::make_unique<Fiber>([this, rank](Fiber& fiber) {
    for (;;) {
      try {
        (*kernel_)();
      } catch (const Error&) {
        error_ = std::current_exception();
      }
      threads_[rank].status = ThreadStatus::ended;
      fiber.stop();
    }
  });
}

void BlockRunner::run_thread(Thread& thread) {
  if (!fibers_[thread.rank]) fibers_[thread.rank] = make_fiber(thread.rank);
  current_ = &thread;
  threadIdx = thread.index;
  fibers_[thread.rank]->resume();
  if (error_) abandon(std::exchange(error_, nullptr));
}

void BlockRunner::wait(Collective collective, std::uint32_t mask) {
  current_->status = ThreadStatus::waiting;
  current_->waits_at = collective;
  current_->mask = mask;
  fibers_[current_->rank]->stop();
}

bool BlockRunner::release_warp(Warp& warp) {
  const Thread* first = nullptr;
  std::uint32_t present = 0;
  std::uint32_t named = ~0U;
  for (std::size_t i = warp.begin; i < warp.end; ++i) {
    const Thread& thread = threads_[i];
    if (thread.status == ThreadStatus::ended) continue;
    if (first == nullptr) first = &thread;
    if (thread.waits_at == Collective::block_barrier || thread.waits_at != first->waits_at) return false;
    present |= 1U << static_cast<unsigned>(thread.lane);
    named &= thread.mask;
  }
  if (first == nullptr) return false;
  if ((present & ~named) != 0) {
    abandon(std::make_exception_ptr(
        RuntimeError(std::string("the mask of ") + name_of(first->waits_at) + " lacks lanes that come to it")));
  }
  Meeting& meeting = warp.meetings[(first->meetings - 1) % 2];
  meeting.present = present;
  meeting.has_result = false;
  for (std::size_t i = warp.begin; i < warp.end; ++i) {
    if (threads_[i].status == ThreadStatus::waiting) threads_[i].status = ThreadStatus::runnable;
  }
  return true;
}

bool BlockRunner::release_block() {
  for (const Thread& thread : threads_) {
    if (thread.status == ThreadStatus::waiting && thread.waits_at != Collective::block_barrier) return false;
  }
  for (Thread& thread : threads_) {
    if (thread.status == ThreadStatus::waiting) thread.status = ThreadStatus::runnable;
  }
  return true;
}

void BlockRunner::abandon(std::exception_ptr error) {
  // Destroying the fibers unwinds threads that have not ended.
  fibers_.clear();
  std::rethrow_exception(std::move(error));
}

std::string BlockRunner::describe_divergence() const {
  std::map<std::string, int> counts;
  for (const Thread& thread : threads_) {
    ++counts[thread.status == ThreadStatus::ended ? "the end of the kernel" : name_of(thread.waits_at)];
  }
  std::string text = "the threads of block " + to_string(blockIdx) + " wait for each other in vain:";
  for (const auto& [place, count] : counts) text += " " + std::to_string(count) + " at " + place + ",";
  text.pop_back();
  return text;
}

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
