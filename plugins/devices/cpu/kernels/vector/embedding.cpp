#include "kernels/vector/global_index.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
void forward(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices, const T* table,
             const std::int32_t* ids, T* y, int threads) {
  const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(T);
  parallel_rows(threads, count, columns, [=, &row_indices](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = local_index(row_indices, rows, ids[i]);
      if (row < 0) {
        __builtin_memset(y + i * columns, 0, bytes);
      } else {
        __builtin_memcpy(y + i * columns, table + row * columns, bytes);
      }
    }
  });
}

template <class T>
void gradient(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices, const T* dy,
              const std::int32_t* ids, float* dtable, bool accumulate, int threads) {
  // Threads divide the columns among them, so that each row of the table is summed in the order of the ids.
  const std::int64_t grain = larger(kLanes, divide_up(kParallelGrain, larger(count, 1)));
  parallel_ranges(threads, columns, kLanes, grain, [=, &row_indices](std::int64_t begin, std::int64_t end) {
    const std::size_t bytes = static_cast<std::size_t>(end - begin) * sizeof(float);
    for (std::int64_t row = 0; row < rows && !accumulate; ++row) {
      __builtin_memset(dtable + row * columns + begin, 0, bytes);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = local_index(row_indices, rows, ids[i]);
      if (row < 0) continue;
      float* to = dtable + row * columns;
      map_range(begin, end, to, dy + i * columns, to, [](Float a, Float b) { return a + b; });
    }
  });
}

template <class T>
constexpr EmbeddingKernels<T> kKernels = {forward<T>, gradient<T>};

}  // namespace

const ByElement<EmbeddingKernels> embedding_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
