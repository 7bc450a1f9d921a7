#include "graph_marks.hpp"

#include <atomic>
#include <string>

#include "strata/error.hpp"

namespace strata::nccl {
namespace {

/// Number of marks, more than a graph has nodes.
constexpr std::int64_t kMost = std::int64_t{1} << 19;
constexpr std::int64_t kBytes = 2;

}  // namespace

bool OperationMarks::is_set(unsigned char* mark) {
  // The GPU writes the mark concurrently.
  return std::atomic_ref<unsigned char>(*mark).load(std::memory_order_acquire) != 0;
}

GraphMarks::GraphMarks(GpuRuntime& gpu) : memory_(gpu.allocate_pinned(kMost * kBytes)) {}

OperationMarks GraphMarks::take() {
  if (count_ == kMost) throw RuntimeError("graphs hold more than " + std::to_string(kMost) + " communications");
  auto* const begin = static_cast<unsigned char*>(memory_.get()) + kBytes * count_++;
  return {begin, begin + 1};
}

void GraphMarks::clear(GpuRuntime& gpu, void* stream, std::int64_t begin, std::int64_t end) const {
  if (begin == end) return;
  gpu.fill(stream, static_cast<unsigned char*>(memory_.get()) + kBytes * begin, 0, kBytes * (end - begin));
}

}  // namespace strata::nccl
