#include "device/cuda_kernel.hpp"
#include "device/step_graph.hpp"
#include "kernels/element_run.cuh"
#include "language/launch.hpp"
#include "launchers/reduce_sources.hpp"
#include "strata/error.hpp"

namespace strata::cuda {

/// The source addresses of a reduction, passed by value.
struct ReducedSources {
  int count = 0;
  const void* at[kMaxReducedSources] = {};
};

namespace detail {
/// The type in which elements are reduced. Integers are reduced in their own type.
template <class T>
struct Reduced {
  using type = std::conditional_t<std::is_integral_v<T>, T, Accumulate<T>>;
};
}  // namespace detail

/// The greater of two numbers, or the first if neither is greater, as for NaN.
struct Greatest {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

inline constexpr int kReduceThreads = 256;

template <int N, class T, class Combine>
__device__ __forceinline__ void reduce_run(const ReducedSources& sources, const Combine& combine, std::int64_t at,
                                           T* y) {
  using A = typename detail::Reduced<T>::type;
  A result[N];
  load_run<N>(static_cast<const T*>(sources.at[0]) + at, result);
#pragma unroll 4
  for (int j = 1; j < sources.count; ++j) {
    A other[N];
    load_run<N>(static_cast<const T*>(sources.at[j]) + at, other);
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] = combine(result[i], other[i]);
  }
  store_run<N>(y + at, result);
}

/// y[i] = the sources combined in their order. y may alias a source. `packed`: all addresses are aligned.
template <class T, class Combine>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_sources(ReducedSources sources, Combine combine, std::int64_t size, bool packed, T* y) {
  constexpr int kRun = kRunLength<T>;
  const std::int64_t in_runs = packed ? size - size % kRun : 0;
  const std::int64_t at = (std::int64_t{blockIdx.x} * kReduceThreads + threadIdx.x) * kRun;
  if (at < in_runs) reduce_run<kRun>(sources, combine, at, y);
  for_each_single(in_runs, size, [&](std::int64_t i) { reduce_run<1>(sources, combine, i, y); });
}

namespace {

/// Calls function.operator()<T>() with the kernels' element type for a DType that can be reduced.
template <class Function>
void with_reduced(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::i32:
      return function.template operator()<std::int32_t>();
    case DType::i64:
      return function.template operator()<std::int64_t>();
    case DType::i8:
      throw VerificationError("i8 holds quantised numbers, which cannot be reduced");
    default:
      return with_element(dtype, function);
  }
}

template <class T, class Combine>
void launch_combine(Stream stream, const Combine& combine, void* destination, const ReducedSources& sources,
                    std::int64_t elements) {
  bool packed = is_aligned(destination);
  for (int j = 0; j < sources.count; ++j) packed = packed && is_aligned(sources.at[j]);
  launch(reduce_sources<T, Combine>, {{blocks_for(elements, kReduceThreads * kRunLength<T>)}, {kReduceThreads}}, stream,
         sources, combine, elements, packed, static_cast<T*>(destination));
}

}  // namespace

void launch_reduce(Stream stream, Reduction reduction, DType dtype, void* destination,
                   std::span<const void* const> sources, std::int64_t elements) {
  if (sources.empty()) throw VerificationError("a reduction needs at least one source");
  if (sources.size() > kMaxReducedSources) {
    throw VerificationError("a reduction of " + std::to_string(sources.size()) +
                            " sources; the cuda device takes up to " + std::to_string(kMaxReducedSources));
  }
  ReducedSources addresses;
  for (const void* source : sources) addresses.at[addresses.count++] = source;
  with_reduced(dtype, [&]<class T>() {
    if (reduction == Reduction::max) return launch_combine<T>(stream, Greatest{}, destination, addresses, elements);
    launch_combine<T>(stream, Sum{}, destination, addresses, elements);
  });
}

namespace {

/// The values are arguments of the launch, so no host memory has to stay unchanged until the kernel runs.
__global__ void store_step_values(StepValues values, StepValues* to) { *to = values; }

}  // namespace

void launch_store_step_values(Stream stream, const StepValues& values, StepValues* to) {
  launch(store_step_values, {{1}, {1}}, stream, values, to);
}

}  // namespace strata::cuda
