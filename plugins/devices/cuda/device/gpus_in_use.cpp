#include "device/gpus_in_use.hpp"

namespace strata::cuda {

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
