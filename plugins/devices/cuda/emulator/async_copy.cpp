#include "emulator/async_copy.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/block.hpp"

namespace strata::cuda::emulator {
namespace {

constexpr std::size_t kCopyBytes = 16;

void carry_out(const PendingCopy& copy) {
  if (copy.valid) {
    std::memcpy(copy.to, copy.from, kCopyBytes);
  } else {
    std::memset(copy.to, 0, kCopyBytes);
  }
}

}  // namespace

void copy_async(void* shared, const void* global, bool valid) {
  check_aligned(shared, kCopyBytes);
  if (valid) check_aligned(global, kCopyBytes);
  Thread& thread = BlockRunner::of_this_thread().current();
  thread.copies.push_back({shared, global, valid, thread.copy_group});
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
