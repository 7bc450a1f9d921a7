#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "language/index_map.hpp"
#include "language/language.hpp"
#include "language/launch.hpp"
#include "strata/random.hpp"

namespace strata::cuda {

/// Maps the elements of a rank's tensor to all elements of the step, both in row-major order. Plain data, passed to
/// kernels by value.
struct GlobalElements {
  static constexpr int kMaxDims = 6;
  int count = 0;
  DimIndexMap dims[kMaxDims] = {};
  /// Distance of neighbours along each dim.
  std::int64_t strides[kMaxDims] = {};
  /// Number of elements of earlier micro-batches.
  std::int64_t offset = 0;

  [[nodiscard]] __host__ __device__ std::uint64_t operator()(std::int64_t local) const {
    // Unsigned division is cheaper.
    auto rest = static_cast<std::uint64_t>(local);
    std::int64_t global = offset;
#pragma unroll 1
    for (int i = count - 1; i > 0; --i) {
      const auto size = static_cast<std::uint64_t>(dims[i].local_size);
      const std::uint64_t outer = rest / size;
      global += dims[i].global_index(static_cast<std::int64_t>(rest - outer * size)) * strides[i];
      rest = outer;
    }
    if (count > 0) global += dims[0].global_index(static_cast<std::int64_t>(rest)) * strides[0];
    return static_cast<std::uint64_t>(global);
  }
};

inline constexpr int kDropoutThreads = 256;

/// Elements per thread, at least those that share a block of random words.
template <class T>
inline constexpr int kDropoutRun = kRunLength<T> < 4 ? 4 : kRunLength<T>;

/// The mask and factor of dropout. A: the type in which elements are computed.
template <class A>
struct DropoutMask {
  RandomStream stream;
  /// Elements whose random word is below the threshold are dropped.
  std::uint32_t threshold = 0;
  A kept = 1;

  __device__ __forceinline__ A apply(std::uint32_t word, A x) const { return word >= threshold ? x * kept : A{0}; }

  __device__ __forceinline__ void apply(std::uint64_t key, std::uint64_t global, A (&x)[1]) const {
    x[0] = apply(random_word(key, global), x[0]);
  }
  /// Factors of N neighbours. The first one has the first word of its block.
  template <int N>
  __device__ __forceinline__ void apply(std::uint64_t key, std::uint64_t global, A (&x)[N]) const {
#pragma unroll
    for (int begin = 0; begin < N; begin += 4) {
      const RandomWords random = philox(key, global / 4 + begin / 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[begin + i] = apply(random.words[i], x[begin + i]);
    }
  }
};

/// The addends of dropout's result.
template <class T>
struct DropoutAddends {
  const T* residual = nullptr;  ///< or null
  /// If true, adds to y.
  bool accumulate = false;

  template <int N, class A>
  __device__ __forceinline__ void add(std::int64_t at, const T* y, A (&x)[N]) const {
    if (residual != nullptr) add_run(residual + at, x);
    if (accumulate) add_run(y + at, x);
  }

 private:
  template <int N, class A>
  static __device__ __forceinline__ void add_run(const T* from, A (&x)[N]) {
    A other[N];
    load_run<N>(from, other);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += other[i];
  }
};

/// y = dropout(x) + addends. x and the residual may alias y. `packed`: addresses are aligned, and each run of
/// neighbours is also one in the step that starts at a multiple of four.
template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout(DropoutMask<Accumulate<T>> mask, GlobalElements elements, DropoutAddends<T> addends, std::int64_t size,
            bool packed, const T* x, T* y) {
  const std::uint64_t key = mask.stream.key();
  const auto drop = [&]<int N>(std::integral_constant<int, N> /*run*/, std::int64_t at) {
    Accumulate<T> values[N];
    load_run<N>(x + at, values);
    mask.apply(key, elements(at), values);
    addends.add(at, y, values);
    store_run<N>(y + at, values);
  };
  constexpr int kRun = kDropoutRun<T>;
  const std::int64_t index = std::int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x;
  if (packed) {
    if (index * kRun < size) drop(std::integral_constant<int, kRun>{}, index * kRun);
  } else {
    if (index < size) drop(std::integral_constant<int, 1>{}, index);
  }
}

namespace {

/// One dim of a tensor, with its stride and offset in the step's order of elements.
struct GlobalDim {
  DimIndexMap map;
  std::int64_t stride = 0;
};

bool is_whole(const DimIndexMap& map) {
  return map.count == 1 && map.local_size == map.global_size && map.runs[0].global_begin == 0;
}

/// The dims of the result, outermost first. The dim that grows with every micro-batch counts as the outermost dim of
/// the step, so that masks do not depend on the number of micro-batches.
std::vector<GlobalDim> global_dims(const OpInstance& op) {
  const Dims& names = op.results[0].dims;
  std::vector<GlobalDim> dims;
  for (const Dim& name : names) dims.push_back({dim_index_map(op, name), 0});
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (names[i] == op.micro_batch_dim) continue;
    dims[i].stride = stride;
    stride *= dims[i].map.global_size;
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (names[i] == op.micro_batch_dim) dims[i].stride = stride;
  }
  return dims;
}

/// Merges `outer` and `inner` into one dim. `inner` must be whole.
GlobalDim merged(GlobalDim outer, const GlobalDim& inner) {
  const std::int64_t size = inner.map.global_size;
  outer.map.local_size *= size;
  outer.map.global_size *= size;
  for (int i = 0; i < outer.map.count; ++i) {
    IndexRun& run = outer.map.runs[i];
    run = {run.local_begin * size, run.global_begin * size, run.length * size};
  }
  outer.stride = inner.stride;
  return outer;
}

/// Merges all dims that can be merged, because each dim costs kernels a division.
std::vector<GlobalDim> merged_dims(const OpInstance& op) {
  std::vector<GlobalDim> result;
  for (const GlobalDim& dim : global_dims(op)) {
    const bool continues =
        !result.empty() && is_whole(dim.map) && result.back().stride == dim.stride * dim.map.global_size;
    if (continues) {
      result.back() = merged(result.back(), dim);
    } else {
      result.push_back(dim);
    }
  }
  return result;
}

GlobalElements elements_of(const std::vector<GlobalDim>& dims) {
  GlobalElements elements;
  for (const GlobalDim& dim : dims) {
    elements.dims[elements.count] = dim.map;
    elements.strides[elements.count] = dim.stride;
    ++elements.count;
  }
  return elements;
}

/// Number of elements of one micro-batch.
std::int64_t micro_batch_elements(const OpInstance& op) {
  std::int64_t count = 1;
  bool grows = false;
  for (const Dim& dim : op.results[0].dims) {
    count *= dim_index_map(op, dim).global_size;
    grows = grows || dim == op.micro_batch_dim;
  }
  return grows ? count : 0;
}

/// True if every aligned run of `length` local elements is also a run of the step that starts at a multiple of four.
/// Four neighbours of the step share a block of random words.
bool keeps_runs(const GlobalElements& elements, std::int64_t micro_batch, std::int64_t length) {
  if (elements.count == 0 || micro_batch % 4 != 0) return false;
  const int last = elements.count - 1;
  for (int i = 0; i < last; ++i) {
    if (elements.strides[i] % 4 != 0) return false;
  }
  const DimIndexMap& columns = elements.dims[last];
  return elements.strides[last] == 1 &&
         std::all_of(columns.runs, columns.runs + columns.count, [=](const IndexRun& run) {
           return run.local_begin % length == 0 && run.length % length == 0 && run.global_begin % 4 == 0;
         });
}

/// Prepares dropout and dropout_add. The residual is the second operand of dropout_add.
constexpr auto kDropout = []<class T>(const OpInstance& op, const CudaEnvironment& environment) -> PreparedKernel {
  using A = Accumulate<T>;
  const GlobalElements global = elements_of(merged_dims(op));
  const std::int64_t micro_batch = micro_batch_elements(op);
  const bool in_runs = keeps_runs(global, micro_batch, kDropoutRun<T>);
  const double probability = op.attributes.number("p");
  DropoutMask<A> mask;
  mask.stream = {random::stream_base(op.seed, op.name), environment.step_values()};
  mask.threshold = random::drop_threshold(probability);
  mask.kept = static_cast<A>(1.0 / (1.0 - probability));
  return {[=, size = elements(op.results[0]), has_residual = op.operands.size() == 2,
           accumulate = op.accumulate](const KernelArguments& arguments) {
    GlobalElements of_launch = global;
    of_launch.offset = micro_batch * arguments.context.micro_batch;
    const T* x = in<T>(arguments, 0);
    T* y = out<T>(arguments, 0);
    const DropoutAddends<T> addends{has_residual ? in<T>(arguments, 1) : nullptr, accumulate};
    const bool packed = in_runs && are_aligned(x, addends.residual, y);
    const std::int64_t of_block = kDropoutThreads * (packed ? kDropoutRun<T> : 1);
    launch(dropout<T>, {{blocks_for(size, of_block)}, {kDropoutThreads}}, arguments.stream, mask, of_launch, addends,
           size, packed, x, y);
  }};
};

std::optional<std::string> unsupported_dropout(const OpInstance& op) {
  if (auto reason = unsupported_index_maps(op, op.results[0].dims)) return reason;
  const std::size_t dims = merged_dims(op).size();
  if (dims <= GlobalElements::kMaxDims) return std::nullopt;
  return "[" + join(op.results[0].dims) + "] has " + std::to_string(dims) + " dims that are dealt, the kernel takes " +
         std::to_string(GlobalElements::kMaxDims);
}

}  // namespace

void register_dropout(Registration& registration) {
  add(registration, {"dropout", "t", "t", true, unsupported_dropout}, kDropout);
  add(registration, {"dropout_add", "tt", "t", true, unsupported_dropout}, kDropout);
}

}  // namespace strata::cuda
