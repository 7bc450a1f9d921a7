#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>

namespace strata::cuda {

/// Bytes of a GPU that one rank may plan with: its share of the free memory minus `reserve`. The reserve is for memory
/// that is allocated after planning: graphs, the code of cuBLASLt's algorithms and NCCL's buffers. -1 reserves a
/// sixteenth of the share, at most 2 GiB. \throws ConfigurationError if nothing is left.
std::int64_t plannable_bytes(std::int64_t free, int sharing, std::int64_t reserve);

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
