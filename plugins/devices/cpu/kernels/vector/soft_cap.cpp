#include "kernels/vector/soft_cap.hpp"

#include "kernels/vector/parallel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
void forward(std::int64_t size, float cap, const T* x, T* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, x, y, [cap](Float a) { return soft_cap(a, cap); });
  });
}

template <class T>
void gradient(std::int64_t size, float cap, const T* dy, const T* y, T* dx, bool accumulate, int threads) {
  parallel_vectors(threads, size, [=](std::int64_t i, auto lanes) {
    store(dx + i, load(dy + i, lanes) * soft_cap_slope(load(y + i, lanes), cap), accumulate, lanes);
  });
}

template <class T>
constexpr SoftCapKernels<T> kKernels = {forward<T>, gradient<T>};

}  // namespace

const ByElement<SoftCapKernels> soft_cap_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
