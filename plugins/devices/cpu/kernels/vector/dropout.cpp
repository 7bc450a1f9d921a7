#include "kernels/vector/global_index.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/philox.hpp"
#include "kernels/vector/transpose.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

constexpr std::int64_t kChunk = 4 * kLanes;  // number of elements of kLanes Philox blocks

/// factors[i] = factor of the element with global index 4 * block + i, for i < kChunk
inline void factors_of_chunk(const DropoutFactors& dropout, std::uint64_t block, float* factors) {
  Word low = broadcast(static_cast<std::uint32_t>(block));
  Word high = broadcast(static_cast<std::uint32_t>(block >> 32));
  for (int lane = 0; lane < kLanes; ++lane) {
    low[lane] = static_cast<std::uint32_t>(block + static_cast<std::uint64_t>(lane));
    high[lane] = static_cast<std::uint32_t>((block + static_cast<std::uint64_t>(lane)) >> 32);
  }
  const RandomWords random = philox(low, high, dropout.key);
  float by_word[4 * kLanes];
  for (int word = 0; word < 4; ++word) store(by_word + word * kLanes, dropout.of(random.words[word]));
  transpose(4, kLanes, by_word, kLanes, factors, 4, 1.0F);
}

/// Calls apply(i, n, factors) for consecutive pieces of [0, length), n <= kChunk. Element 0 has the global index
/// `global`.
template <class Apply>
inline void each_chunk(const DropoutFactors& dropout, std::uint64_t global, std::int64_t length, const Apply& apply) {
  float factors[kChunk + 4];
  std::int64_t i = 0;
  std::int64_t skip = static_cast<std::int64_t>(global % 4);
  std::uint64_t block = global / 4;
  for (; i < length; block += kLanes) {
    factors_of_chunk(dropout, block, factors);
    const std::int64_t n = smaller(kChunk - skip, length - i);
    apply(i, n, factors + skip);
    i += n;
    skip = 0;
  }
}

/// Global flat index of the beginning of the global row that contains a local row. A row spans the last dim.
std::uint64_t global_row_begin(const IndexedDim* dims, int count, std::int64_t row) {
  std::uint64_t begin = 0;
  std::uint64_t stride = static_cast<std::uint64_t>(dims[count - 1].global_size);
  for (int i = count - 2; i >= 0; --i) {
    const IndexedDim& dim = dims[i];
    begin += stride * static_cast<std::uint64_t>(global_index(dim.map, dim.local_size, row % dim.local_size));
    stride *= static_cast<std::uint64_t>(dim.global_size);
    row /= dim.local_size;
  }
  return begin;
}

/// Calls apply(at, n, factors) for pieces of the whole tensor: n elements at flat index `at`.
template <class Apply>
void each_factor(const DropoutSettings& settings, const IndexedDim* dims, int count, int threads, const Apply& apply) {
  const DropoutFactors dropout(settings);
  const IndexedDim& last = dims[count - 1];
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < count; ++i) rows *= dims[i].local_size;
  parallel_rows(threads, rows, last.local_size, [&](std::int64_t first_row, std::int64_t end_row) {
    for (std::int64_t row = first_row; row < end_row; ++row) {
      const std::uint64_t begin = global_row_begin(dims, count, row);
      for (std::int64_t column = 0; column < last.local_size;) {
        const IndexSegment segment = segment_of(last.map, last.local_size, column);
        const std::int64_t start = column;
        const std::int64_t length = segment.local_begin + segment.length - start;
        const std::int64_t global = segment.global_begin + (start - segment.local_begin);
        each_chunk(dropout, begin + static_cast<std::uint64_t>(global), length,
                   [&](std::int64_t i, std::int64_t n, const float* factors) {
                     apply(row * last.local_size + start + i, n, factors);
                   });
        column += length;
      }
    }
  });
}

template <class T>
void forward(const DropoutSettings& settings, const IndexedDim* dims, int count, const T* x, const T* residual, T* y,
             bool accumulate, int threads) {
  each_factor(settings, dims, count, threads, [=](std::int64_t at, std::int64_t n, const float* factors) {
    each_vector(0, n, [=](std::int64_t i, auto lanes) {
      Float value = load(x + at + i, lanes) * load(factors + i, lanes);
      if (residual != nullptr) value += load(residual + at + i, lanes);
      store(y + at + i, value, accumulate, lanes);
    });
  });
}

template <class T>
constexpr DropoutKernels<T> kKernels = {forward<T>};

}  // namespace

const ByElement<DropoutKernels> dropout_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
