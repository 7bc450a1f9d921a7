#include "kernels/gate.hpp"

#include "kernels/vector/activation_functions.hpp"
#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
void multiply(std::int64_t size, const T* x, const T* y, T* z, bool accumulate, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    if (!accumulate) return map_range(begin, end, x, y, z, [](Float a, Float b) { return a * b; });
    each_vector(
        begin, end, [=](std::int64_t i) { store(z + i, multiply_add(load(x + i), load(y + i), load(z + i))); },
        [=](std::int64_t i, std::int64_t n) {
          store_first(z + i, multiply_add(load_first(x + i, n), load_first(y + i, n), load_first(z + i, n)), n);
        });
  });
}

template <class T>
constexpr ProductKernels<T> kProducts = {multiply<T>};

template <class Kind, class T>
void forward(std::int64_t size, const T* gate, const T* up, T* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, gate, up, y, [](Float g, Float u) { return Kind::value(g) * u; });
  });
}

template <class Kind, class T>
void gradient(std::int64_t size, const T* dy, const T* gate, const T* up, T* dgate, T* dup, bool accumulate,
              int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    each_vector(
        begin, end,
        [=](std::int64_t i) {
          const Float d = load(dy + i);
          const Float g = load(gate + i);
          const Float of_gate = d * load(up + i) * Kind::slope(g);
          const Float of_up = d * Kind::value(g);
          store(dgate + i, accumulate ? load(dgate + i) + of_gate : of_gate);
          store(dup + i, accumulate ? load(dup + i) + of_up : of_up);
        },
        [=](std::int64_t i, std::int64_t n) {
          const Float d = load_first(dy + i, n);
          const Float g = load_first(gate + i, n);
          const Float of_gate = d * load_first(up + i, n) * Kind::slope(g);
          const Float of_up = d * Kind::value(g);
          store_first(dgate + i, accumulate ? load_first(dgate + i, n) + of_gate : of_gate, n);
          store_first(dup + i, accumulate ? load_first(dup + i, n) + of_up : of_up, n);
        });
  });
}

template <class Kind, class T>
constexpr GateKernels<T> kGates = {forward<Kind, T>, gradient<Kind, T>};

template <class Kind>
constexpr NamedGate row(const char* kind) {
  return {kind, {kGates<Kind, float>, kGates<Kind, BFloat16>, kGates<Kind, Float16>}};
}

/// The functions of activation.cpp.
constexpr NamedGate kKinds[] = {
    row<GeluTanh>("gelu_tanh"),
    row<Relu>("relu"),
    row<Silu>("silu"),
};

}  // namespace

const ByElement<ProductKernels> product_kernels = {kProducts<float>, kProducts<BFloat16>, kProducts<Float16>};
const GateTable gate_kernels = {kKinds, sizeof kKinds / sizeof *kKinds};

}  // namespace strata::cpu::STRATA_CPU_TARGET
