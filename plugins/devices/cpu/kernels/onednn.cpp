#include "kernels/onednn.hpp"

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
namespace {

void set_threads(int count) {
#if !defined(_OPENMP)
  if (omp_set_num_threads == nullptr) return;
#endif
  omp_set_num_threads(count);
}

}  // namespace

#if defined(_OPENMP)
OneDnnThreads::OneDnnThreads(int count) : before_(omp_get_max_threads()) { set_threads(count); }
#else
OneDnnThreads::OneDnnThreads(int) : before_(omp_get_max_threads == nullptr ? 1 : omp_get_max_threads()) {
  set_threads(1);
}
#endif

OneDnnThreads::~OneDnnThreads() { set_threads(before_); }

const dnnl::engine& one_dnn_engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

}  // namespace strata::cpu
