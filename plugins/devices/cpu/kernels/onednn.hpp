#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace strata::cpu {

/// During its lifetime, oneDNN uses `count` threads if the calling thread calls it. The setting belongs to the calling
/// thread, so ranks in one process do not affect each other.
class OneDnnThreads {
 public:
  explicit OneDnnThreads(int count);
  ~OneDnnThreads();
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;

 private:
  int before_;
};

/// The engine of the process. It has no state except the kind of device.
const dnnl::engine& one_dnn_engine();

}  // namespace strata::cpu
