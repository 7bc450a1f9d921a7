#include "kernels/attention_mask.cuh"
#include "kernels/attention_shape.cuh"
#include "kernels/attention_softmax.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

// Square tiles of a block of 16 by 16 threads, and their products, on ordinary arithmetic units. They serve f32 and
// f64, and widths that tensor cores do not support. Operands pass through shared memory in slices of columns, so that
// its size does not depend on the width.

inline constexpr int kPlainThreads = 256;
inline constexpr int kPlainSide = 16;
/// The largest width for which sums of rows fit the registers.
inline constexpr int kPlainWidth = 256;
/// Columns of a slice.
inline constexpr int kSlice = 32;

/// Rows of a tile. A thread has every sixteenth row.
template <class Real>
inline constexpr int kPlainRows = sizeof(Real) == 8 ? 32 : 64;

[[nodiscard]] __device__ __forceinline__ int plain_row() { return static_cast<int>(threadIdx.x) / kPlainSide; }
[[nodiscard]] __device__ __forceinline__ int plain_column() { return static_cast<int>(threadIdx.x) % kPlainSide; }

/// A thread's part of a matrix: every sixteenth row and column.
template <class RealType, int Columns>
struct PlainFragment {
  using Real = RealType;
  static constexpr int kRows = kPlainRows<Real> / kPlainSide;
  static constexpr int kColumns = Columns / kPlainSide;
  /// Number of lanes that share a row. They are neighbours.
  static constexpr int kLanesPerRow = kPlainSide;

  Real values[kRows][kColumns];

  [[nodiscard]] static __device__ __forceinline__ int row(int r) { return plain_row() + kPlainSide * r; }
  [[nodiscard]] static __device__ __forceinline__ int column(int c) { return plain_column() + kPlainSide * c; }
  [[nodiscard]] __device__ __forceinline__ Real& at(int r, int c) { return values[r][c]; }
  [[nodiscard]] __device__ __forceinline__ Real at(int r, int c) const { return values[r][c]; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) values[r][c] = 0;
    }
  }
  __device__ __forceinline__ void scale_row(int r, Real factor) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) values[r][c] *= factor;
  }
};

/// Matrices of scores, and of sums of rows.
template <class Real>
using PlainScores = PlainFragment<Real, kPlainRows<Real>>;
template <class Real>
using PlainSum = PlainFragment<Real, kPlainWidth>;

/// A matrix in shared memory. Its rows start in different banks.
template <class Real, int Columns>
struct PlainTile {
  static constexpr int kPack = kPackedElements<Real>;
  static constexpr int kStride = Columns + kPack;
  static constexpr int kRows = kPlainRows<Real>;
  static constexpr std::size_t kBytes = std::size_t{kRows} * kStride * sizeof(Real);

  Real* elements;

  [[nodiscard]] __device__ __forceinline__ Real* row(int index) const { return elements + index * kStride; }
};

/// The shared memory of a block.
template <class Real>
struct PlainMemory {
  static constexpr int kRows = kPlainRows<Real>;
  using Slice = PlainTile<Real, kSlice>;
  using Square = PlainTile<Real, kRows>;

  Slice left;
  Slice right;
  /// A left factor.
  Square factor;
  /// Statistics of queries, used by gradients.
  QueryStatistic<Real>* statistics;
  TilePlaces<kRows>* query_places;
  TilePlaces<kRows>* key_places;
  std::uint32_t* kept;

  static constexpr std::size_t kStatisticsBytes = sizeof(QueryStatistic<Real>) * kRows;
  static constexpr std::size_t kKeptBytes = std::size_t{kRows} * (kRows / 32) * 4;
  static constexpr std::size_t kPlacesBytes = 2 * sizeof(TilePlaces<kRows>);
  static constexpr std::size_t kBytes =
      2 * Slice::kBytes + Square::kBytes + kStatisticsBytes + kPlacesBytes + kKeptBytes;

  __device__ __forceinline__ explicit PlainMemory(unsigned char* memory)
      : left{reinterpret_cast<Real*>(memory)},
        right{reinterpret_cast<Real*>(memory + Slice::kBytes)},
        factor{reinterpret_cast<Real*>(memory + 2 * Slice::kBytes)},
        statistics(reinterpret_cast<QueryStatistic<Real>*>(memory + 2 * Slice::kBytes + Square::kBytes)),
        query_places(reinterpret_cast<TilePlaces<kRows>*>(memory + kBytes - kKeptBytes - kPlacesBytes)),
        key_places(query_places + 1),
        kept(reinterpret_cast<std::uint32_t*>(memory + kBytes - kKeptBytes)) {}
};

/// Copies as many elements of a row as one load takes into shared memory.
template <class T, class Real>
__device__ __forceinline__ void load_pack(Real* to, const T* from, bool is_there) {
  constexpr int kPack = kPackedElements<Real>;
  Packed<T> elements{};
  if (is_there) elements = load_packed(from);
#pragma unroll
  for (int i = 0; i < kPackedElements<T>; i += kPack) {
    Packed<Real> wide;
#pragma unroll
    for (int j = 0; j < kPack; ++j) wide[j] = widen(elements[i + j]);
    store_packed(to + i, wide);
  }
}

/// Loads a slice of rows. Elements past the last row and column are zero.
template <class T, class Real>
__device__ __forceinline__ void load_slice(const PlainTile<Real, kSlice>& to, const HeadRows<const T>& rows, int first,
                                           int first_column) {
  const int elements = rows.is_aligned ? kPackedElements<T> : 1;  // elements per load
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) * elements; i < kPlainRows<Real> * kSlice; i += kPlainThreads * elements) {
    const int row = first + i / kSlice;
    const int column = first_column + i % kSlice;
    const bool is_there = row < rows.count && column < rows.width;
    const T* from = rows.row(row) + column;
    Real* slice = to.row(i / kSlice) + i % kSlice;
    if (rows.is_aligned) {
      load_pack(slice, from, is_there);
    } else {
      *slice = is_there ? widen(*from) : Real{0};
    }
  }
}

/// The dot products of rows of two matrices.
template <class T, class Real>
__device__ __forceinline__ PlainScores<Real> multiply_transposed(const PlainMemory<Real>& memory,
                                                                 const HeadRows<const T>& a, int first_a,
                                                                 const HeadRows<const T>& b, int first_b) {
  using Scores = PlainScores<Real>;
  constexpr int kPack = kPackedElements<Real>;
  Scores scores;
  scores.clear();
  for (int slice = 0; slice < a.width; slice += kSlice) {
    __syncthreads();  // All threads have read the last slices.
    load_slice(memory.left, a, first_a, slice);
    load_slice(memory.right, b, first_b, slice);
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < kSlice; j += kPack) {
      Packed<Real> left[Scores::kRows];
#pragma unroll
      for (int r = 0; r < Scores::kRows; ++r) left[r] = load_packed(memory.left.row(Scores::row(r)) + j);
#pragma unroll
      for (int c = 0; c < Scores::kColumns; ++c) {
        const Packed<Real> right = load_packed(memory.right.row(Scores::column(c)) + j);
#pragma unroll
        for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
          for (int i = 0; i < kPack; ++i) scores.at(r, c) += left[r][i] * right[i];
        }
      }
    }
  }
  return scores;
}

/// sum += factor · rows of b from `first` on.
template <class T, class Real>
__device__ __forceinline__ void multiply_add(PlainSum<Real>& sum, const PlainMemory<Real>& memory,
                                             const PlainScores<Real>& factor, const HeadRows<const T>& b, int first) {
  using Scores = PlainScores<Real>;
  constexpr int kPack = kPackedElements<Real>;
  constexpr int kColumnsOfSlice = kSlice / kPlainSide;
  __syncthreads();  // All threads have read the last factor.
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Scores::kColumns; ++c) memory.factor.row(Scores::row(r))[Scores::column(c)] = factor.at(r, c);
  }
#pragma unroll
  for (int slice = 0; slice < kPlainWidth / kSlice; ++slice) {
    if (slice * kSlice >= b.width) break;
    __syncthreads();
    load_slice(memory.right, b, first, slice * kSlice);
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < kPlainRows<Real>; j += kPack) {
      Packed<Real> left[Scores::kRows];
#pragma unroll
      for (int r = 0; r < Scores::kRows; ++r) left[r] = load_packed(memory.factor.row(Scores::row(r)) + j);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
#pragma unroll
        for (int c = 0; c < kColumnsOfSlice; ++c) {
          const Real right = memory.right.row(j + i)[Scores::column(c)];
#pragma unroll
          for (int r = 0; r < Scores::kRows; ++r) sum.at(r, slice * kColumnsOfSlice + c) += left[r][i] * right;
        }
      }
    }
  }
}

template <class Result, class Real>
__device__ __forceinline__ void store_rows(const PlainSum<Real>& values, const HeadRows<Result>& rows, int first) {
#pragma unroll
  for (int r = 0; r < PlainSum<Real>::kRows; ++r) {
    const int row = first + PlainSum<Real>::row(r);
#pragma unroll
    for (int c = 0; c < PlainSum<Real>::kColumns; ++c) {
      const int column = PlainSum<Real>::column(c);
      if (row < rows.count && column < rows.width) rows.row(row)[column] = narrow<Result>(values.at(r, c));
    }
  }
}

/// Stores the block's rows of a result of type f32 or T. `rows_of` returns the rows of a head in it.
template <class T, class Real, class RowsOf>
__device__ __forceinline__ void store_result(const PlainSum<Real>& values, void* result, [[maybe_unused]] bool is_f32,
                                             const RowsOf& rows_of, int first) {
  if constexpr (!std::is_same_v<T, float>) {
    if (!is_f32) return store_rows(values, rows_of(static_cast<T*>(result)), first);
  }
  store_rows(values, rows_of(static_cast<float*>(result)), first);
}

/// Loads the places of a tile. A barrier must follow.
template <Rows Side, int Count>
__device__ __forceinline__ void load_places(TilePlaces<Count>* places, const AttentionShape& shape, int sample,
                                            int first) {
  places->template load<Side, kPlainThreads>(shape, sample, first);
  commit_copies();
  wait_copies<0>();
}

// Attention and its gradients without tensor cores, with the same order of tiles as on tensor cores.

/// Grid: tiles of queries, heads, samples.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    attention_plain_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v, void* o,
                           Accumulate<T>* log_sum_exponential) {
  using Real = Accumulate<T>;
  using Scores = PlainScores<Real>;
  constexpr int kTile = kPlainRows<Real>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  const PlainMemory<Real> memory(dynamic_shared());
  const HeadRows<const T> queries = query_rows(shape, q, sample, head);
  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  VisibleTiles<Rows::are_queries, kTile, kTile> visible(shape, first_query);
  load_places<Rows::are_queries>(memory.query_places, shape, sample, first_query);

  PlainSum<Real> output;
  output.clear();
  OnlineSoftmax<Scores> softmax(shape);
  for (auto tile = visible.next(0); !visible.is_end(tile); tile = visible.next(tile.index + 1)) {
    const int first_key = tile.index * kTile;
    if (!tile.is_whole) load_places<Rows::are_keys>(memory.key_places, shape, sample, first_key);
    Scores scores = multiply_transposed(memory, queries, first_query, keys, first_key);
    cap_scores(scores, shape);
    if (!tile.is_whole) hide<Rows::are_queries>(scores, shape, *memory.query_places, *memory.key_places);
    softmax.add(scores, output);
    if (shape.dropout.threshold != 0) {
      draw_kept_bits<kPlainThreads, kTile, kTile>(memory.kept, shape, sample, head, first_query, first_key);
      __syncthreads();
      drop<kTile>(scores, memory.kept);
    }
    multiply_add(output, memory, scores, values, first_key);
  }

  softmax.finish();
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
    output.scale_row(r, softmax.normalizer(r) * shape.dropout.kept_factor.template as<Real>());
    const int query = first_query + Scores::row(r);
    if (plain_column() == 0 && query < shape.queries) {
      log_sum_exponential[shape.statistics(sample, head) + query] = softmax.log_sum_exponential(r);
    }
  }
  store_result<T>(
      output, o, shape.f32_results, [&](auto* all) { return query_rows(shape, all, sample, head); }, first_query);
}

/// Grid: tiles of queries, heads, samples.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    attention_plain_query_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k,
                                          const T* v, const QueryStatistic<Accumulate<T>>* statistics, const T* d_o,
                                          void* d_q) {
  using Real = Accumulate<T>;
  using Scores = PlainScores<Real>;
  constexpr int kTile = kPlainRows<Real>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  const PlainMemory<Real> memory(dynamic_shared());
  const HeadRows<const T> queries = query_rows(shape, q, sample, head);
  const HeadRows<const T> gradients = query_rows(shape, d_o, sample, head);
  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  VisibleTiles<Rows::are_queries, kTile, kTile> visible(shape, first_query);
  load_places<Rows::are_queries>(memory.query_places, shape, sample, first_query);
  load_statistics<kPlainThreads, kTile>(memory.statistics, statistics + shape.statistics(sample, head), first_query,
                                        shape.queries);
  commit_copies();
  wait_copies<0>();

  const bool has_dropout = shape.dropout.threshold != 0;
  PlainSum<Real> sum;
  sum.clear();
  for (auto tile = visible.next(0); !visible.is_end(tile); tile = visible.next(tile.index + 1)) {
    const int first_key = tile.index * kTile;
    if (!tile.is_whole) load_places<Rows::are_keys>(memory.key_places, shape, sample, first_key);
    Scores scores = multiply_transposed(memory, queries, first_query, keys, first_key);
    cap_scores(scores, shape);
    if (!tile.is_whole) hide<Rows::are_queries>(scores, shape, *memory.query_places, *memory.key_places);
    if (has_dropout) {
      draw_kept_bits<kPlainThreads, kTile, kTile>(memory.kept, shape, sample, head, first_query, first_key);
    }
    Scores value_products = multiply_transposed(memory, gradients, first_query, values, first_key);
    if (has_dropout) {
      differentiate<Rows::are_queries, kTile, true, true>(scores, value_products, shape, memory.statistics,
                                                          memory.kept);
    } else {
      differentiate<Rows::are_queries, kTile, false, true>(scores, value_products, shape, memory.statistics,
                                                           memory.kept);
    }
    multiply_add(sum, memory, value_products, keys, first_key);
  }
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) sum.scale_row(r, shape.scale.template as<Real>());
  store_result<T>(
      sum, d_q, shape.f32_results, [&](auto* all) { return query_rows(shape, all, sample, head); }, first_query);
}

/// Grid: tiles of keys, heads of keys, samples.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    attention_plain_key_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k,
                                        const T* v, const QueryStatistic<Accumulate<T>>* statistics, const T* d_o,
                                        void* d_k, void* d_v) {
  using Real = Accumulate<T>;
  using Scores = PlainScores<Real>;
  constexpr int kTile = kPlainRows<Real>;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_key = static_cast<int>(blockIdx.x) * kTile;
  const PlainMemory<Real> memory(dynamic_shared());
  const HeadRows<const T> keys = key_rows(shape, k, sample, kv_head);
  const HeadRows<const T> values = key_rows(shape, v, sample, kv_head);
  using Walk = QueryWalk<kTile, kTile>;
  Walk walk(shape, first_key, kv_head);
  load_places<Rows::are_keys>(memory.key_places, shape, sample, first_key);

  const bool has_dropout = shape.dropout.threshold != 0;
  PlainSum<Real> key_sum;
  PlainSum<Real> value_sum;
  key_sum.clear();
  value_sum.clear();
  for (typename Walk::Step step = walk.first(); !walk.is_end(step); step = walk.next(step)) {
    const int first_query = step.first_query();
    const HeadRows<const T> queries = query_rows(shape, q, sample, step.head);
    const HeadRows<const T> gradients = query_rows(shape, d_o, sample, step.head);
    __syncthreads();  // All threads have read the last tile's statistics and kept bits.
    if (!step.is_whole) load_places<Rows::are_queries>(memory.query_places, shape, sample, first_query);
    load_statistics<kPlainThreads, kTile>(memory.statistics, statistics + shape.statistics(sample, step.head),
                                          first_query, shape.queries);
    commit_copies();
    wait_copies<0>();
    if (has_dropout) {
      draw_kept_bits<kPlainThreads, kTile, kTile>(memory.kept, shape, sample, step.head, first_query, first_key);
    }
    Scores scores = multiply_transposed(memory, keys, first_key, queries, first_query);
    cap_scores(scores, shape);
    if (!step.is_whole) hide<Rows::are_keys>(scores, shape, *memory.key_places, *memory.query_places);
    Scores value_products = multiply_transposed(memory, values, first_key, gradients, first_query);
    if (has_dropout) {
      differentiate<Rows::are_keys, kTile, true, true>(scores, value_products, shape, memory.statistics, memory.kept);
    } else {
      differentiate<Rows::are_keys, kTile, false, true>(scores, value_products, shape, memory.statistics, memory.kept);
    }
    multiply_add(value_sum, memory, scores, gradients, first_query);
    multiply_add(key_sum, memory, value_products, queries, first_query);
  }
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
    key_sum.scale_row(r, shape.scale.template as<Real>());
    value_sum.scale_row(r, shape.dropout.kept_factor.template as<Real>());
  }
  const auto rows_of = [&](auto* all) { return key_rows(shape, all, sample, kv_head); };
  store_result<T>(key_sum, d_k, shape.f32_results, rows_of, first_key);
  store_result<T>(value_sum, d_v, shape.f32_results, rows_of, first_key);
}

static_assert(kWidestHead == kPlainWidth);

template <class T>
void PlainUnits<T>::forward(const AttentionPlan& plan, const KernelArguments& arguments) {
  using Real = Accumulate<T>;
  launch(attention_plain_kernel<T>, plan.by_queries(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes),
         arguments.stream, plan.at(arguments), in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2),
         arguments.results[0], out<Real>(arguments, 1));
}

template <class T>
void PlainUnits<T>::gradient(const AttentionPlan& plan, const AttentionShape& shape,
                             const GradientArguments<T>& given) {
  using Real = Accumulate<T>;
  launch(attention_plain_query_gradient_kernel<T>,
         plan.by_queries(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes), given.stream, shape, given.q,
         given.k, given.v, given.statistics, given.d_o, given.d_q);
  launch(attention_plain_key_gradient_kernel<T>,
         plan.by_keys(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes), given.stream, shape, given.q,
         given.k, given.v, given.statistics, given.d_o, given.d_k, given.d_v);
}

template struct PlainUnits<float>;
template struct PlainUnits<BFloat16>;
template struct PlainUnits<Float16>;
template struct PlainUnits<double>;

}  // namespace strata::cuda
