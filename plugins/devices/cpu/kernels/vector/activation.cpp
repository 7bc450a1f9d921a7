#include "kernels/vector/parallel.hpp"
#include "kernels/vector/vector.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

// gelu_tanh(x) = x/2 (1 + tanh(u)) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3). The second form is accurate
// even if tanh is near -1.
constexpr float kTwoRootTwoOverPi = 1.5957691216057308F;
constexpr float kCubic = 0.044715F;

/// exp(-x), bounded so that the products below stay finite.
inline Float exponential_of_minus(Float x) { return exponential(-maximum(broadcast(-87.0F), x)); }

struct GeluTanh {
  static Float value(Float x) {
    const Float u = x * kTwoRootTwoOverPi * multiply_add(x * x, kCubic, 1.0F);
    return x / (1.0F + exponential_of_minus(u));
  }
  static Float slope(Float x) {
    const Float square = x * x;
    const Float u = x * kTwoRootTwoOverPi * multiply_add(square, kCubic, 1.0F);
    const Float e = exponential_of_minus(u);
    const Float s = 1.0F / (1.0F + e);
    return multiply_add(x * s * (e * s), kTwoRootTwoOverPi * multiply_add(square, 3.0F * kCubic, 1.0F), s);
  }
};

/// x times the normal distribution function, by formula 7.1.26 for the error function of Abramowitz and Stegun,
/// "Handbook of Mathematical Functions", whose error is below 1.5e-7.
struct Gelu {
  static Float value(Float x) { return x * distribution(x, exponential(-0.5F * x * x)); }
  static Float slope(Float x) {
    const Float bell = exponential(-0.5F * x * x);
    return multiply_add(x * bell, 0.3989422804014327F, distribution(x, bell));
  }

 private:
  /// `bell`: exp(-x²/2)
  static Float distribution(Float x, Float bell) {
    constexpr float kRootHalf = 0.7071067811865476F;
    const Float t = 1.0F / multiply_add(maximum(x, -x), 0.3275911F * kRootHalf, 1.0F);
    Float sum = multiply_add(t, 1.061405429F, -1.453152027F);
    sum = multiply_add(sum, t, broadcast(1.421413741F));
    sum = multiply_add(sum, t, broadcast(-0.284496736F));
    sum = multiply_add(sum, t, broadcast(0.254829592F));
    const Float tail = 0.5F * sum * t * bell;
    return select(x > Float{}, 1.0F - tail, tail);
  }
};

struct Tanh {
  static Float value(Float x) {
    const Float e = exponential_of_minus(2.0F * x);
    return (1.0F - e) / (1.0F + e);
  }
  static Float slope(Float x) {
    const Float y = value(x);
    return 1.0F - y * y;
  }
};

struct Relu {
  static Float value(Float x) { return maximum(Float{}, x); }
  static Float slope(Float x) { return select(x > Float{}, broadcast(1.0F), Float{}); }
};

struct Sigmoid {
  static Float value(Float x) { return 1.0F / (1.0F + exponential_of_minus(x)); }
  static Float slope(Float x) {
    const Float e = exponential_of_minus(x);
    const Float s = 1.0F / (1.0F + e);
    return s * (e * s);
  }
};

struct Silu {
  static Float value(Float x) { return x / (1.0F + exponential_of_minus(x)); }
  static Float slope(Float x) {
    const Float e = exponential_of_minus(x);
    const Float s = 1.0F / (1.0F + e);
    return multiply_add(x * s, e * s, s);
  }
};

template <class Kind, class T>
void forward(std::int64_t size, const T* x, T* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, x, y, [](Float a) { return Kind::value(a); });
  });
}

template <class Kind, class T>
void gradient(std::int64_t size, const T* dy, const T* x, T* dx, bool accumulate, int threads) {
  parallel_vectors(threads, size, [=](std::int64_t i, auto lanes) {
    store(dx + i, load(dy + i, lanes) * Kind::slope(load(x + i, lanes)), accumulate, lanes);
  });
}

template <class Kind, class T>
void gated_forward(std::int64_t size, const T* gate, const T* up, T* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, gate, up, y, [](Float g, Float u) { return Kind::value(g) * u; });
  });
}

template <class Kind, class T>
void gated_gradient(std::int64_t size, const T* dy, const T* gate, const T* up, T* dgate, T* dup, bool accumulate,
                    int threads) {
  parallel_vectors(threads, size, [=](std::int64_t i, auto lanes) {
    const Float d = load(dy + i, lanes);
    const Float g = load(gate + i, lanes);
    const Float of_gate = d * load(up + i, lanes) * Kind::slope(g);
    const Float of_up = d * Kind::value(g);
    store(dgate + i, of_gate, accumulate, lanes);
    store(dup + i, of_up, accumulate, lanes);
  });
}

template <class Kind, class T>
constexpr ActivationKernels<T> kKernels = {forward<Kind, T>, gradient<Kind, T>, gated_forward<Kind, T>,
                                           gated_gradient<Kind, T>};

template <class Kind>
constexpr NamedActivation row(const char* kind) {
  return {kind, {kKernels<Kind, float>, kKernels<Kind, BFloat16>, kKernels<Kind, Float16>}};
}

/// All functions with kernels. To add one, write a struct like those above, and a row here.
constexpr NamedActivation kActivations[] = {
    row<Gelu>("gelu"),       row<GeluTanh>("gelu_tanh"), row<Relu>("relu"),
    row<Sigmoid>("sigmoid"), row<Silu>("silu"),          row<Tanh>("tanh"),
};

}  // namespace

const ActivationTable activation_kernels = {kActivations, sizeof kActivations / sizeof *kActivations};

}  // namespace strata::cpu::STRATA_CPU_TARGET
