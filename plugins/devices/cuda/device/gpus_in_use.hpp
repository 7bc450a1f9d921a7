#pragma once

#include <functional>
#include <mutex>
#include <set>

namespace strata::cuda {

/// The GPUs of this process's ranks. Peer access from one GPU to another creates a context of this process on the other
/// GPU, which takes at least 0.5 GB there. So only GPUs of this process are connected.
class GpusInUse {
 public:
  /// Lets GPU `from` access the memory of GPU `to`.
  using Connect = std::function<void(int from, int to)>;

  /// Records that a rank of this process uses `gpu`, and connects it with the recorded GPUs in both directions.
  /// Thread-safe. \throws what `connect` throws.
  void add(int gpu, const Connect& connect);

 private:
  std::mutex mutex_;
  std::set<int> gpus_;
};

}  // namespace strata::cuda
