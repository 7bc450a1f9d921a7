#pragma once

#if defined(_OPENMP)
#include <omp.h>
#else
// Without OpenMP in this build, oneDNN still uses its own, if its OpenMP runtime is loaded. So these symbols are weak.
extern "C" {
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) void omp_set_num_threads(int count);
}
#endif

namespace strata::cpu {

/// During its lifetime, oneDNN uses `count` threads if the calling thread calls it. The setting belongs to the calling
/// thread, so ranks in one process do not affect each other.
class OneDnnThreads {
 public:
#if defined(_OPENMP)
  explicit OneDnnThreads(int count) : before_(omp_get_max_threads()) { set(count); }
#else
  explicit OneDnnThreads(int) : before_(omp_get_max_threads == nullptr ? 1 : omp_get_max_threads()) { set(1); }
#endif
  ~OneDnnThreads() { set(before_); }
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;

 private:
  static void set(int count) {
#if !defined(_OPENMP)
    if (omp_set_num_threads == nullptr) return;
#endif
    omp_set_num_threads(count);
  }

  int before_;
};

}  // namespace strata::cpu
