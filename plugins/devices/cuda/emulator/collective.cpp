#include "emulator/collective.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/block.hpp"
#include "strata/error.hpp"

namespace strata::cuda::emulator {
namespace {

void carry_out(const PendingCopy& copy) {
  if (copy.valid) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  } else {
    std::memset(copy.to, 0, copy.bytes);
  }
}

}  // namespace

void block_barrier() { BlockRunner::of_this_thread().wait(Collective::block_barrier, 0); }

Meeting& meet(Collective collective, std::uint32_t mask, const void* data, std::size_t bytes) {
  BlockRunner& runner = BlockRunner::of_this_thread();
  Thread& thread = runner.current();
  Meeting& meeting = runner.current_warp().meetings[thread.meetings++ % 2];
  if (bytes > 0) std::memcpy(meeting.brought[static_cast<std::size_t>(thread.lane)].bytes.data(), data, bytes);
  runner.wait(collective, mask);
  return meeting;
}

int current_lane() { return BlockRunner::of_this_thread().current().lane; }

void fail(const char* what) { throw RuntimeError(what); }

std::uint32_t vote(std::uint32_t mask, bool value) {
  const Meeting& meeting = meet_with(Collective::vote, mask, value);
  std::uint32_t votes = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto bit = static_cast<unsigned>(lane);
    if ((meeting.present >> bit & 1U) != 0 && meeting.from<bool>(lane)) votes |= 1U << bit;
  }
  return votes;
}

void copy_async(void* shared, const void* global, std::size_t bytes, bool valid) {
  check_aligned(shared, bytes);
  if (valid) check_aligned(global, bytes);
  Thread& thread = BlockRunner::of_this_thread().current();
  thread.copies.push_back({shared, global, bytes, valid, thread.copy_group});
}

void commit_copies() { ++BlockRunner::of_this_thread().current().copy_group; }

void wait_copies(int pending) {
  Thread& thread = BlockRunner::of_this_thread().current();
  const int done = thread.copy_group - pending;
  const auto newer = std::find_if(thread.copies.begin(), thread.copies.end(),
                                  [done](const PendingCopy& copy) { return copy.group >= done; });
  std::for_each(thread.copies.begin(), newer, carry_out);
  thread.copies.erase(thread.copies.begin(), newer);
}

}  // namespace strata::cuda::emulator
