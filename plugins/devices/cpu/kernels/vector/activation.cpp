#include "kernels/activation.hpp"

#include "kernels/vector/activation_functions.hpp"
#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class Kind, class T>
void forward(std::int64_t size, const T* x, T* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, x, y, [](Float a) { return Kind::value(a); });
  });
}

template <class Kind, class T>
void gradient(std::int64_t size, const T* dy, const T* x, T* dx, bool accumulate, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    if (!accumulate) return map_range(begin, end, dy, x, dx, [](Float d, Float a) { return d * Kind::slope(a); });
    each_vector(
        begin, end, [=](std::int64_t i) { store(dx + i, load(dx + i) + load(dy + i) * Kind::slope(load(x + i))); },
        [=](std::int64_t i, std::int64_t n) {
          store_first(dx + i, load_first(dx + i, n) + load_first(dy + i, n) * Kind::slope(load_first(x + i, n)), n);
        });
  });
}

template <class Kind, class T>
constexpr ActivationKernels<T> kKernels = {forward<Kind, T>, gradient<Kind, T>};

template <class Kind>
constexpr NamedActivation row(const char* kind) {
  return {kind, {kKernels<Kind, float>, kKernels<Kind, BFloat16>, kKernels<Kind, Float16>}};
}

/// All functions with kernels. To add one, write a struct in activation_functions.hpp, and a row here and in gate.cpp.
constexpr NamedActivation kActivations[] = {
    row<GeluTanh>("gelu_tanh"),
    row<Relu>("relu"),
    row<Silu>("silu"),
};

}  // namespace

const ActivationTable activation_kernels = {kActivations, sizeof kActivations / sizeof *kActivations};

}  // namespace strata::cpu::STRATA_CPU_TARGET
