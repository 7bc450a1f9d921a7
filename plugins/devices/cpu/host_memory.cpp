#include "host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "strata/error.hpp"

namespace strata::cpu {
namespace {

/// Device::allocate promises it.
constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kHugePage = 2LL << 20U;

std::int64_t round_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

[[noreturn]] void fail(std::int64_t bytes) {
  throw RuntimeError("the cpu device cannot allocate " + std::to_string(bytes) + " bytes");
}

std::shared_ptr<void> allocate_small(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(std::max(kAlignment, round_up(bytes, kAlignment)));
  void* memory = std::aligned_alloc(kAlignment, size);
  if (memory == nullptr) fail(bytes);
  std::memset(memory, 0, size);
  return {memory, std::free};
}

}  // namespace

std::shared_ptr<void> allocate_host_memory(std::int64_t bytes) {
  if (bytes < 2 * kHugePage) return allocate_small(bytes);
  // Mapped pages are zero already. Alignment to huge pages saves TLB misses.
  const auto size = static_cast<std::size_t>(round_up(bytes, kHugePage) + kHugePage);
  void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) fail(bytes);
  void* memory = mapping;
  std::size_t space = size;
  std::align(kHugePage, size - kHugePage, memory, space);
  static_cast<void>(madvise(memory, size - kHugePage, MADV_HUGEPAGE));
  return {memory, [mapping, size](void*) { munmap(mapping, size); }};
}

}  // namespace strata::cpu
