#include <algorithm>
#include <bit>

#include "device/cuda_kernel.hpp"
#include "kernels/attention_shape.cuh"
#include "kernels/element_run.cuh"
#include "language/launch.hpp"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

inline constexpr int kLanesPerStatistics = 8;
inline constexpr int kStatisticsThreads = 256;
inline constexpr int kRowsPerStatisticsBlock = kStatisticsThreads / kLanesPerStatistics;

/// The statistics of queries [sample, head, query], with D = o · d_o. Each group of lanes has a row. Neighbouring
/// groups have neighbouring heads, whose rows are adjacent in memory.
template <class T>
__global__ void __launch_bounds__(kStatisticsThreads)
    attention_statistics_kernel(const __grid_constant__ AttentionShape shape, const T* o, const T* d_o,
                                const Accumulate<T>* log_sum_exponential, QueryStatistic<Accumulate<T>>* statistics) {
  using Real = Accumulate<T>;
  constexpr int kPack = kPackedElements<T>;
  const int lane = static_cast<int>(threadIdx.x) % kLanesPerStatistics;
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerStatisticsBlock + threadIdx.x / kLanesPerStatistics;
  const bool is_there = row < shape.rows();
  const T* output = o + row * shape.width;
  const T* gradient = d_o + row * shape.width;
  Accumulate<T> sum = 0;
  if (is_there && shape.has_aligned_rows) {
    for (int j = lane * kPack; j < shape.width; j += kLanesPerStatistics * kPack) {
      const Packed<T> left = load_packed(output + j);
      const Packed<T> right = load_packed(gradient + j);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += widen(left[i]) * widen(right[i]);
    }
  } else if (is_there) {
    for (int j = lane; j < shape.width; j += kLanesPerStatistics) sum += widen(output[j]) * widen(gradient[j]);
  }
  sum = warp_reduce<kLanesPerStatistics>(sum, Sum{});
  if (!is_there || lane != 0) return;
  const std::int64_t position = row / shape.heads;  // index of (sample, query)
  const int head = static_cast<int>(row % shape.heads);
  const int sample = static_cast<int>(position / shape.queries);
  const std::int64_t at = shape.statistics(sample, head) + position % shape.queries;
  const Real log_sum = log_sum_exponential[at];
  const bool sees_no_key = log_sum == -static_cast<Real>(INFINITY);
  statistics[at] = {sees_no_key ? static_cast<Real>(INFINITY) : log_sum * static_cast<Real>(kLog2E), sum};
}

namespace {

/// Largest number of heads, and of samples, in a grid.
constexpr std::int64_t kMaxGridSide = 65535;

/// True if a bias is among the operands.
bool has_bias(const OpInstance& op) { return AttentionPlan(op, nullptr).has_bias(); }

/// Calls function.operator()<Units>() with the kernels for an op.
template <class T, class Function>
PreparedKernel with_units(const OpInstance& op, const CudaEnvironment& environment, const Function& function) {
  if constexpr (sizeof(T) == 2) {
    using Narrow = MatrixUnits<T, kNarrowHead, 64>;
    using Wide = MatrixUnits<T, kWideHead, 64>;
    using WideWithLess = MatrixUnits<T, kWideHead, 32>;
    const std::int64_t width = columns(op.operands[0]);
    const bool is_general = op.attributes.number("dropout") > 0 || attention_scores(op).cap > 0 || has_bias(op);
    const std::size_t shared = environment.shared_bytes_per_block();
    if (width <= kNarrowHead && Narrow::shared_bytes(is_general) <= shared) {
      return function.template operator()<Narrow>();
    }
    // A multiprocessor is busy only with two blocks or more.
    if (width <= kWideHead && 2 * Wide::shared_bytes(is_general) <= shared) {
      return function.template operator()<Wide>();
    }
    if (width <= kWideHead && WideWithLess::shared_bytes(is_general) <= shared) {
      return function.template operator()<WideWithLess>();
    }
  }
  return function.template operator()<PlainUnits<T>>();
}

std::optional<std::string> unsupported_attention(const OpInstance& op) {
  if (auto fault = devices::unsupported_attention_types(op)) return fault;
  const Shape& queries = op.operands[0].shape;
  if (queries.back() > kWidestHead) {
    return "heads cannot be " + std::to_string(queries.back()) + " wide, up to " + std::to_string(kWidestHead) +
           " are accepted";
  }
  const std::int64_t heads = element_count(queries) / (queries[0] * queries[1] * queries.back());
  if (heads > kMaxGridSide || queries[0] > kMaxGridSide) {
    return std::to_string(heads) + " heads of " + std::to_string(queries[0]) + " samples are too many, up to " +
           std::to_string(kMaxGridSide) + " of each are accepted";
  }
  try {
    const AttentionPlan plan(op, nullptr);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return std::nullopt;
}

constexpr auto kAttentionGradient = []<class T>(const OpInstance& op,
                                                const CudaEnvironment& environment) -> PreparedKernel {
  return with_units<T>(op, environment, [&]<class Units>() -> PreparedKernel {
    const AttentionPlan plan(op, environment.step_values());
    const std::int64_t rows = plan.shape().rows();
    WorkspacePlan workspace;
    workspace.reserve(rows * static_cast<std::int64_t>(sizeof(QueryStatistic<Accumulate<T>>)));
    const int rows_of_block = Units::query_gradient_rows();
    const std::int64_t bias_sums_at = workspace.reserve(BiasGradient<T>::workspace_bytes(plan, rows_of_block));
    return {[=](const KernelArguments& arguments) {
              const GradientArguments<T> given(arguments, bias_sums_at);
              const AttentionShape shape = plan.at(arguments);
              Geometry geometry;
              geometry.grid.x = blocks_for(rows, kRowsPerStatisticsBlock);
              geometry.block.x = kStatisticsThreads;
              launch(attention_statistics_kernel<T>, geometry, arguments.stream, shape, given.o, given.d_o,
                     given.log_sum_exponential, given.statistics);
              Units::gradient(plan, shape, given);
              if (given.d_bias != nullptr) BiasGradient<T>::launch(plan, given, rows_of_block);
            },
            workspace.bytes()};
  });
};

}  // namespace

inline constexpr int kMergeThreads = 256;

/// Shape of o[batch, sequence, heads, head_dim] and of its log-sum-exp l[batch, heads, sequence].
struct AttentionOutputShape {
  int batch = 0;
  int sequence = 0;
  int heads = 0;
  int head_dim = 0;
};

/// The weights of two outputs, and the log-sum-exp of both.
template <class V>
struct MergeWeights {
  V first = 0;
  V second = 0;
  V log_sum = -static_cast<V>(INFINITY);
};

template <class V>
__device__ __forceinline__ MergeWeights<V> merge_weights(V first, V second) {
  const V largest = first > second ? first : second;
  if (largest == -static_cast<V>(INFINITY)) return {};
  const V a = std::exp(first - largest);
  const V b = std::exp(second - largest);
  return {a / (a + b), b / (a + b), largest + std::log(a + b)};
}

/// Merges attention to two disjoint sets of keys into attention to both. A query that sees no key has o = 0. o may
/// alias o1, and l may alias l1. Grid: rows (query, head), batch. The threads along x share a row; their number is a
/// power of two of at most a warp.
template <class V, int kWidth>
__global__ void __launch_bounds__(kMergeThreads)
    attention_merge(AttentionOutputShape shape, const V* o1, const V* l1, const V* o2, const V* l2, V* o, V* l) {
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  const unsigned heads = static_cast<unsigned>(shape.heads);
  const unsigned query = row / heads;
  const unsigned head = row % heads;
  const bool has_row = query < static_cast<unsigned>(shape.sequence);
  const std::int64_t batch = blockIdx.y;
  const std::int64_t log_sum_at = (batch * shape.heads + head) * shape.sequence + query;
  MergeWeights<V> weights;
  if (has_row) weights = merge_weights(l1[log_sum_at], l2[log_sum_at]);
  __syncwarp();  // l may alias l1: all threads of the row have read it
  if (!has_row) return;
  if (threadIdx.x == 0) l[log_sum_at] = weights.log_sum;

  const std::int64_t begin = ((batch * shape.sequence + query) * shape.heads + head) * shape.head_dim;
  const int step = static_cast<int>(blockDim.x) * kWidth;
  for (int column = static_cast<int>(threadIdx.x) * kWidth; column < shape.head_dim; column += step) {
    V a[kWidth];
    V b[kWidth];
    load_run<kWidth>(o1 + begin + column, a);
    load_run<kWidth>(o2 + begin + column, b);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) a[i] = weights.first * a[i] + weights.second * b[i];
    store_run<kWidth>(o + begin + column, a);
  }
}

namespace {

AttentionOutputShape shape_of_merge(const OpInstance& op) {
  const Shape& output = op.operands[0].shape;
  std::int64_t heads = 1;
  for (std::size_t i = 2; i + 1 < output.size(); ++i) heads *= output[i];
  return {.batch = static_cast<int>(output[0]),
          .sequence = static_cast<int>(output[1]),
          .heads = static_cast<int>(heads),
          .head_dim = static_cast<int>(output.back())};
}

/// Uses as many threads for a row as the row has runs, rounded to a power of two of at most a warp.
Geometry geometry_of_merge(const AttentionOutputShape& shape, int runs) {
  const unsigned lanes = std::bit_ceil(static_cast<unsigned>(std::clamp(runs, 1, kWarpSize)));
  const unsigned rows_of_block = kMergeThreads / lanes;
  return {.grid = {blocks_for(std::int64_t{shape.sequence} * shape.heads, rows_of_block),
                   static_cast<unsigned>(shape.batch)},
          .block = {lanes, rows_of_block}};
}

constexpr auto kAttentionMerge = []<class T>(const OpInstance& op) -> PreparedKernel {
  using V = Accumulate<T>;
  return {[shape = shape_of_merge(op)](const KernelArguments& arguments) {
    const V* o1 = in<V>(arguments, 0);
    const V* o2 = in<V>(arguments, 2);
    V* o = out<V>(arguments, 0);
    const auto launch_with = [&]<int kWidth>() {
      launch(attention_merge<V, kWidth>, geometry_of_merge(shape, shape.head_dim / kWidth), arguments.stream, shape, o1,
             in<V>(arguments, 1), o2, in<V>(arguments, 3), o, out<V>(arguments, 1));
    };
    const bool packed = shape.head_dim % kPackedElements<V> == 0 && are_aligned(o1, o2, o);
    packed ? launch_with.template operator()<kPackedElements<V>>() : launch_with.template operator()<1>();
  }};
};

}  // namespace

void register_attention(Registration& registration) {
  // With and without a bias, and the documents of queries and keys.
  for (const bool bias : {false, true}) {
    for (const std::string documents : {"", "ii"}) {
      const std::string optional = (bias ? "t" : "") + documents;
      add(registration, {"attention", "ttt" + optional, "rf", false, unsupported_attention},
          []<class T>(const OpInstance& op, const CudaEnvironment& environment) -> PreparedKernel {
            return with_units<T>(op, environment, [&]<class Units>() -> PreparedKernel {
              return {[plan = AttentionPlan(op, environment.step_values())](const KernelArguments& arguments) {
                Units::forward(plan, arguments);
              }};
            });
          });
      add(registration,
          {"attention_gradient", "ttttft" + optional, bias ? "rrrr" : "rrr", false, unsupported_attention},
          kAttentionGradient);
    }
  }
  add(registration, {"attention_merge", "ffff", "ff"}, kAttentionMerge);
}

}  // namespace strata::cuda
