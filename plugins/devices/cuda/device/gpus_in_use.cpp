#include "device/gpus_in_use.hpp"

#include <algorithm>
#include <string>

#include "strata/error.hpp"

namespace strata::cuda {
namespace {

constexpr std::int64_t kDefaultPart = 16;
constexpr std::int64_t kLargestDefault = std::int64_t{2} << 30;

}  // namespace

std::int64_t plannable_bytes(std::int64_t free, int sharing, std::int64_t reserve) {
  const std::int64_t share = free / sharing;
  const std::int64_t kept = reserve >= 0 ? reserve : std::min(share / kDefaultPart, kLargestDefault);
  if (kept < share) return share - kept;
  throw ConfigurationError("the cuda device's option 'reserve_mb' keeps " + std::to_string(kept) +
                           " bytes from the plan; a rank's share of the GPU's free memory is " + std::to_string(share));
}

void GpusInUse::add(int gpu, const Connect& connect) {
  const std::lock_guard lock(mutex_);
  if (!gpus_.insert(gpu).second) return;
  for (const int other : gpus_) {
    if (other == gpu) continue;
    connect(gpu, other);
    connect(other, gpu);
  }
}

}  // namespace strata::cuda
