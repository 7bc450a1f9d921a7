#include <array>

#include "device/cuda_kernel.hpp"
#include "device/runtime.hpp"
#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "language/language.hpp"
#include "launchers/call.hpp"
#include "launchers/map_elements.hpp"
#include "launchers/reduce_sources.hpp"
#include "shared/broadcast.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda {

struct Identity {
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x) const {
    return x;
  }
};

struct Add {
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y) const {
    return x + y;
  }
};

struct Multiply {
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y) const {
    return x * y;
  }
};

/// Multiplies by the step's loss scale.
struct ScaleByLossScale {
  const StepValues* step;

  template <class Value>
  __device__ __forceinline__ Value operator()(Value x) const {
    return static_cast<Value>(__ldg(&step->loss_scale)) * x;
  }
};

/// The layout of y relative to x[..., columns].
struct BroadcastOperand {
  /// Maps an element of x to its element of y.
  StridedIndex place;
  /// True if y has the columns dim. Otherwise y is constant along a row.
  bool has_columns = true;
};

inline constexpr int kBroadcastThreads = 256;

/// Loads N neighbours of one row.
template <int N, class Operation, class T>
__device__ __forceinline__ void broadcast_run(const BroadcastOperand& broadcast, bool accumulate, std::int64_t at,
                                              const T* x, const T* y, T* z) {
  using A = Accumulate<T>;
  A result[N];
  A other[N];
  load_run<N>(x + at, result);
  const T* from = y + broadcast.place(at);
  if (broadcast.has_columns) {
    load_run<N>(from, other);
  } else {
    const A value = to_computed<A>(*from);
#pragma unroll
    for (int i = 0; i < N; ++i) other[i] = value;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) result[i] = Operation{}(result[i], other[i]);
  if (accumulate) {
    load_run<N>(z + at, other);
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] += other[i];
  }
  store_run<N>(z + at, result);
}

/// z (+)= operation(x, y). x may alias z. `packed`: rows are multiples of a run, and addresses are aligned.
template <class Operation, class T>
__global__ void __launch_bounds__(kBroadcastThreads)
    map_broadcast(BroadcastOperand broadcast, std::int64_t size, bool packed, bool accumulate, const T* x, const T* y,
                  T* z) {
  constexpr int kRun = kRunLength<T>;
  const std::int64_t index = std::int64_t{blockIdx.x} * kBroadcastThreads + threadIdx.x;
  if (packed) {
    if (index * kRun < size) broadcast_run<kRun, Operation>(broadcast, accumulate, index * kRun, x, y, z);
  } else {
    if (index < size) broadcast_run<1, Operation>(broadcast, accumulate, index, x, y, z);
  }
}

/// y = x / (√squares + epsilon). `place` maps an element of x to its element of squares.
template <class T>
__global__ void __launch_bounds__(kBroadcastThreads)
    normalize(StridedIndex place, std::int64_t size, double epsilon, const T* x, const Accumulate<T>* squares, T* y) {
  using A = Accumulate<T>;
  const std::int64_t index = std::int64_t{blockIdx.x} * kBroadcastThreads + threadIdx.x;
  if (index >= size) return;
  A value[1];
  load_run<1>(x + index, value);
  value[0] /= square_root(squares[place(index)]) + static_cast<A>(epsilon);
  store_run<1>(y + index, value);
}

/// y (+)= x, repeated. `place` maps an element of y to its element of x.
template <class T>
__global__ void __launch_bounds__(kBroadcastThreads)
    repeat(StridedIndex place, std::int64_t size, bool accumulate, const Accumulate<T>* x, T* y) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kBroadcastThreads + threadIdx.x;
  if (index >= size) return;
  Accumulate<T> value[1] = {0};
  if (accumulate) load_run<1>(y + index, value);
  value[0] += x[place(index)];
  store_run<1>(y + index, value);
}

namespace {

Geometry threads_of(std::int64_t size) { return {{blocks_for(size, kBroadcastThreads)}, {kBroadcastThreads}}; }

template <class Operation, class T>
PreparedKernel prepare_broadcast(const OpInstance& op) {
  constexpr std::int64_t kRun = kRunLength<T>;
  const devices::BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.operands[1]);
  const BroadcastOperand operand{part_index(shape), shape.present[shape.count - 1]};
  const bool cut_in_runs = shape.sizes[shape.count - 1] % kRun == 0;
  return {[=, size = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    const T* y = in<T>(arguments, 1);
    T* z = out<T>(arguments, 0);
    const bool packed = cut_in_runs && are_aligned(x, z) && (!operand.has_columns || is_aligned(y));
    const std::int64_t of_block = kBroadcastThreads * (packed ? kRun : 1);
    launch(map_broadcast<Operation, T>, {{blocks_for(size, of_block)}, {kBroadcastThreads}}, arguments.stream, operand,
           size, packed, accumulate, x, y, z);
  }};
}

std::optional<std::string> unsupported_broadcast(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.operands[1]);
}

/// z (+)= operation(x, y), where y may lack dims of x.
template <class Operation>
constexpr auto kRepeated = []<class T>(const OpInstance& op) -> PreparedKernel {
  if (op.operands[0].dims != op.operands[1].dims) return prepare_broadcast<Operation, T>(op);
  return {map_operands<T, T, T>(op, Operation{})};
};

std::optional<std::string> unsupported_sum(const OpInstance& op) {
  const std::size_t sources = op.operands.size() + (op.accumulate ? 1 : 0);
  if (sources <= kMaxReducedSources) return std::nullopt;
  return "adds up to " + std::to_string(kMaxReducedSources) + " tensors, found " + std::to_string(sources);
}

PreparedKernel prepare_sum(const OpInstance& op) {
  return {[size = elements(op.results[0]), dtype = op.results[0].dtype,
           accumulate = op.accumulate](const KernelArguments& arguments) {
    std::array<const void*, kMaxReducedSources> sources{};
    std::size_t count = 0;
    for (const void* operand : arguments.operands) sources[count++] = operand;
    if (accumulate) sources[count++] = arguments.results[0];
    launch_reduce(arguments.stream, Reduction::sum, dtype, arguments.results[0], {sources.data(), count}, size);
  }};
}

std::optional<std::string> unsupported_repeat(const OpInstance& op) {
  return devices::unsupported_broadcast(op.results[0], op.operands[0]);
}

/// y (+)= x, rounded to nearest once.
PreparedKernel prepare_conversion(const OpInstance& op, bool accumulate) {
  return with_element(op.operands[0].dtype, [&]<class From>() {
    return with_element(op.results[0].dtype, [&]<class To>() -> PreparedKernel {
      return {[size = elements(op.results[0]), accumulate](const KernelArguments& arguments) {
        launch_map(arguments.stream, size, accumulate, Identity{}, out<To>(arguments, 0), in<From>(arguments, 0));
      }};
    });
  });
}

}  // namespace

struct Weights {
  double factor[3] = {};
};

/// The sum of up to three values, each times its factor.
struct WeightedSum {
  Weights weights;

  template <class Value>
  __device__ __forceinline__ Value operator()(Value x) const {
    return static_cast<Value>(weights.factor[0]) * x;
  }
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y) const {
    return (*this)(x) + static_cast<Value>(weights.factor[1]) * y;
  }
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y, Value z) const {
    return (*this)(x, y) + static_cast<Value>(weights.factor[2]) * z;
  }
};

namespace {

constexpr std::size_t kMostTerms = 3;

std::optional<std::string> unsupported_weighted_sum(const OpInstance& op) {
  if (op.operands.size() > kMostTerms) {
    return "adds up to " + std::to_string(kMostTerms) + " terms, found " + std::to_string(op.operands.size());
  }
  for (const OperandDescription& operand : op.operands) {
    if (operand.dtype != op.operands[0].dtype) return "adds terms of one type";
  }
  if (op.operands.size() == 1 || op.operands[0].dtype == op.results[0].dtype) return std::nullopt;
  return "adds several terms in their type only";
}

Weights weights_of(const OpInstance& op) {
  Weights weights;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    weights.factor[i] = op.attributes.number("factor" + std::to_string(i));
  }
  return weights;
}

}  // namespace

void register_elementwise(Registration& registration) {
  add(registration, {"multiply", "tt", "t", true, unsupported_broadcast}, kRepeated<Multiply>);
  add(registration, {"add", "tt", "t", true, unsupported_broadcast}, kRepeated<Add>);
  add(registration, {"sum", "t*", "t", true, unsupported_sum}, prepare_sum);
  add(registration, {"scale_gradient", "t", "t", true},
      []<class T>(const OpInstance& op, const CudaEnvironment& environment) -> PreparedKernel {
        return {map_operands<T, T>(op, ScaleByLossScale{environment.step_values()})};
      });
  add(registration, {"normalize", "tf", "t", false, unsupported_broadcast}, []<class T>(const OpInstance& op) {
    const std::int64_t size = elements(op.results[0]);
    return call(normalize<T>, threads_of(size), part_index(devices::broadcast_shape(op.operands[0], op.operands[1])),
                size, op.attributes.number("epsilon"), Operand<T>{0}, Operand<Accumulate<T>>{1}, Result<T>{0});
  });
  add(registration, {"repeat", "f", "f", true, unsupported_repeat}, []<class T>(const OpInstance& op) {
    const std::int64_t size = elements(op.results[0]);
    return call(repeat<T>, threads_of(size), part_index(devices::broadcast_shape(op.results[0], op.operands[0])), size,
                op.accumulate, Operand<Accumulate<T>>{0}, Result<T>{0});
  });
  add(registration, {"cast", "r", "r", true},
      [](const OpInstance& op) { return prepare_conversion(op, op.accumulate); });
  add(registration, {ops::kAccumulate, "s", "s"}, [](const OpInstance& op) { return prepare_conversion(op, true); });
  add(registration, {ops::kFillZero, "", "s"}, [](const OpInstance& op) -> PreparedKernel {
    return {[size = bytes(op.results[0])](const KernelArguments& arguments) {
      runtime::fill_zero(arguments.stream, arguments.results[0], size);
    }};
  });
  add(registration, {ops::kWeightedSum, "s*", "s", true, unsupported_weighted_sum},
      []<class T>(const OpInstance& op) -> PreparedKernel {
        const Weights weights = weights_of(op);
        if (op.operands.size() == 2) return {map_operands<T, T, T>(op, WeightedSum{weights})};
        if (op.operands.size() == 3) return {map_operands<T, T, T, T>(op, WeightedSum{weights})};
        return with_element(op.results[0].dtype, [&]<class To>() -> PreparedKernel {
          return {map_operands<To, T>(op, WeightedSum{weights})};
        });
      });
}

}  // namespace strata::cuda
