#pragma once

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulator/collective.hpp"
#include "emulator/execution.hpp"
#include "emulator/fiber.hpp"

namespace strata::cuda::emulator {

/// A copy that the kernel has started and not yet waited for.
struct PendingCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  bool valid = false;
  int group = 0;
};

enum class ThreadStatus : std::uint8_t { runnable, waiting, ended };

/// A thread of the running block.
struct Thread {
  uint3 index{};
  /// Number of the thread in its block.
  std::size_t rank = 0;
  std::size_t warp = 0;
  int lane = 0;
  ThreadStatus status = ThreadStatus::ended;
  Collective waits_at = Collective::block_barrier;
  std::uint32_t mask = 0;
  /// Number of collectives that the thread has reached with its warp.
  unsigned meetings = 0;
  std::vector<PendingCopy> copies;
  int copy_group = 0;
};

struct Warp {
  /// Two meetings, because a lane may reach the next one while others still read the results of the last one.
  std::array<Meeting, 2> meetings;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Runs the blocks of the grids that one host thread launches. Reuses fiber stacks from grid to grid.
class BlockRunner {
 public:
  static BlockRunner& of_this_thread();

  /// Sets the size of later blocks and the order of their threads.
  void prepare(const dim3& block, std::size_t shared_bytes, ThreadOrder order);
  void run(const uint3& block_index, const std::function<void()>& kernel);

  [[nodiscard]] Thread& current() { return *current_; }
  [[nodiscard]] Warp& current_warp() { return warps_[current_->warp]; }
  [[nodiscard]] void* shared_memory() const { return shared_.get(); }
  /// Makes the running thread wait at a collective.
  void wait(Collective collective, std::uint32_t mask);

 private:
  /// Runs the warp's threads in turn until all wait or have ended. \return false if no thread could run.
  bool run_warp(Warp& warp);
  void run_thread(Thread& thread);
  [[nodiscard]] std::unique_ptr<Fiber> make_fiber(std::size_t rank);
  bool release_warp(Warp& warp);
  bool release_block();
  void run_to_end();
  [[noreturn]] void abandon(std::exception_ptr error);
  [[nodiscard]] std::string describe_divergence() const;

  ThreadOrder order_ = ThreadOrder::ascending;
  std::vector<Thread> threads_;
  /// Fibers by thread rank. There are as many as the largest block has had threads.
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  Thread* current_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  std::exception_ptr error_;
  struct FreeShared {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, FreeShared> shared_;
  std::size_t shared_bytes_ = 0;
};

}  // namespace strata::cuda::emulator
