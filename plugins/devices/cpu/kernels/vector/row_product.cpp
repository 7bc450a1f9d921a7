#include "kernels/vector/parallel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Sums of one range of columns, which stay in the first-level cache: up to kProductRows rows.
constexpr std::int64_t kSums = 4096;
/// Rows of b that are read side by side.
constexpr int kDepthStep = 8;
/// Columns of a transposed b that are read side by side.
constexpr int kColumnStep = 4;

/// The sums of columns [begin, begin + width) of all rows, at the distance `stride`.
struct ColumnSums {
  std::int64_t begin = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;
  float* sums = nullptr;
};

/// Adds Depth rows of b, from row k on.
template <int Depth, class T>
void add_depth(const RowProductShape& shape, std::int64_t k, const T* a, const T* b, const ColumnSums& to) {
  float factors[kProductRows][Depth];
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (int d = 0; d < Depth; ++d) factors[row][d] = load_one(a + row * shape.depth + k + d);
  }
  const T* from = b + k * shape.columns + to.begin;
  each_vector(0, to.width, [&](std::int64_t j, auto lanes) {
    Float values[Depth];
    STRATA_UNROLL
    for (int d = 0; d < Depth; ++d) values[d] = load(from + d * shape.columns + j, lanes);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      Float sum = load(to.sums + row * to.stride + j, lanes);
      STRATA_UNROLL
      for (int d = 0; d < Depth; ++d) sum = multiply_add(values[d], factors[row][d], sum);
      store(to.sums + row * to.stride + j, sum, lanes);
    }
  });
}

template <class T>
void sum_columns(const RowProductShape& shape, const T* a, const T* b, const ColumnSums& to) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t j = 0; j < to.width; ++j) to.sums[row * to.stride + j] = 0.0F;
  }
  std::int64_t k = 0;
  for (; k + kDepthStep <= shape.depth; k += kDepthStep) add_depth<kDepthStep>(shape, k, a, b, to);
  for (; k < shape.depth; ++k) add_depth<1>(shape, k, a, b, to);
}

/// Products of one row of a with Columns rows of a transposed b.
template <int Columns, class T>
void dot_columns(std::int64_t depth, const T* a, const T* b, float* to) {
  Float sums[Columns] = {};
  each_vector(0, depth, [&](std::int64_t k, auto lanes) {
    const Float x = load(a + k, lanes);
    STRATA_UNROLL
    for (int c = 0; c < Columns; ++c) sums[c] = multiply_add(x, load(b + c * depth + k, lanes), sums[c]);
  });
  for (int c = 0; c < Columns; ++c) to[c] = horizontal_sum(sums[c]);
}

template <class T>
void sum_transposed(const RowProductShape& shape, const T* a, const T* b, const ColumnSums& to) {
  const auto dot = [&]<int Columns>(std::int64_t j) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      dot_columns<Columns>(shape.depth, a + row * shape.depth, b + (to.begin + j) * shape.depth,
                           to.sums + row * to.stride + j);
    }
  };
  std::int64_t j = 0;
  for (; j + kColumnStep <= to.width; j += kColumnStep) dot.template operator()<kColumnStep>(j);
  for (; j < to.width; ++j) dot.template operator()<1>(j);
}

template <class T, class Result>
void write(const RowProductShape& shape, const ColumnSums& from, const T* bias, Result* c) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    float* sums = from.sums + row * from.stride;
    Result* to = c + row * shape.columns + from.begin;
    const auto add = [](Float x, Float y) { return x + y; };
    if (bias != nullptr) map_range(0, from.width, sums, bias + from.begin, sums, add);
    if (shape.accumulate) {
      map_range(0, from.width, sums, to, to, add);
    } else {
      map_range(0, from.width, sums, to, [](Float x) { return x; });
    }
  }
}

template <class T>
void multiply(const RowProductShape& shape, const T* a, const T* b, const T* bias, Element result, void* c,
              int threads) {
  const std::int64_t stride = kSums / shape.rows / kLanes * kLanes;
  parallel_ranges(threads, shape.columns, kLanes, divide_up(kParallelGrain, shape.depth),
                  [&](std::int64_t begin, std::int64_t end) {
                    float sums[kSums];
                    for (std::int64_t at = begin; at < end; at += stride) {
                      const ColumnSums part{at, smaller(stride, end - at), stride, sums};
                      if (shape.transpose_b) {
                        sum_transposed(shape, a, b, part);
                      } else {
                        sum_columns(shape, a, b, part);
                      }
                      if (result == Element::f32) {
                        write(shape, part, bias, static_cast<float*>(c));
                      } else {
                        write(shape, part, bias, static_cast<T*>(c));
                      }
                    }
                  });
}

template <class T>
constexpr RowProductKernels<T> kKernels = {multiply<T>};

}  // namespace

const ByElement<RowProductKernels> row_product_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
