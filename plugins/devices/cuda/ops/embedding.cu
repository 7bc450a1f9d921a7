#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "device/cuda_kernel.hpp"
#include "kernels/column_tile.cuh"
#include "kernels/element_run.cuh"
#include "language/index_map.hpp"
#include "language/language.hpp"
#include "language/launch.hpp"

namespace strata::cuda {

// A stable radix sort of pairs by key, from the lowest digit on. A pass over a digit has three steps. It counts the
// digits of every block. It sums the counts to find where each digit of each block starts. It moves every pair there.
// The work of a pass grows only with the number of pairs. The order of the pairs does not depend on timing.

/// Pairs per block, one per thread.
inline constexpr int kSortThreads = 256;
inline constexpr int kSortWarps = kSortThreads / kWarpSize;
inline constexpr int kDigitBits = 8;
inline constexpr int kDigits = 1 << kDigitBits;
inline constexpr int kScanThreads = 1024;
static_assert(kDigits == kSortThreads, "a thread has one digit of the block's counts");

/// Pairs in device memory: equally many keys and values. Keys are not negative.
struct SortPairs {
  int* keys;
  int* values;
};

/// Number of passes that sort keys from 0 to `largest`.
inline int passes_for(std::int64_t largest) {
  int passes = 1;
  while ((largest >>= kDigitBits) > 0) ++passes;
  return passes;
}

__device__ __forceinline__ int digit_of(int key, int pass) { return key >> (pass * kDigitBits) & (kDigits - 1); }

__device__ __forceinline__ std::int64_t pair_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
}

/// The lanes that have a pair with this lane's digit.
__device__ __forceinline__ unsigned lanes_with_digit(int digit, bool has_pair) {
  unsigned lanes = __ballot_sync(kFullMask, has_pair);
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const unsigned set = __ballot_sync(kFullMask, is_set);
    lanes &= is_set ? set : ~set;
  }
  return lanes;
}

/// Stores the number of pairs with each digit in counts[digit, block].
static __global__ void __launch_bounds__(kSortThreads)
    count_digits(std::int64_t count, int pass, const int* keys, int* counts) {
  __shared__ int of_block[kDigits];
  of_block[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t i = pair_of_thread();
  if (i < count) atomicAdd(&of_block[digit_of(keys[i], pass)], 1);
  __syncthreads();
  counts[static_cast<std::int64_t>(threadIdx.x) * gridDim.x + blockIdx.x] = of_block[threadIdx.x];
}

/// Replaces each count by the sum of all earlier counts. Runs as one block.
static __global__ void __launch_bounds__(kScanThreads) add_up_counts(std::int64_t count, int* counts) {
  __shared__ int of_warps[kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int before = 0;
  for (std::int64_t begin = 0; begin < count; begin += kScanThreads) {
    const std::int64_t i = begin + threadIdx.x;
    const int own = i < count ? counts[i] : 0;
    int sum = warp_inclusive_sum(own);
    if (lane == kWarpSize - 1) of_warps[warp] = sum;
    __syncthreads();
    if (warp == 0) of_warps[lane] = warp_inclusive_sum(of_warps[lane]);
    __syncthreads();
    if (warp > 0) sum += of_warps[warp - 1];
    if (i < count) counts[i] = before + sum - own;
    before += of_warps[kWarpSize - 1];
    __syncthreads();
  }
}

/// Moves every pair to its place in `to`. begins[digit, block]: the start of the block's pairs with that digit. Pairs
/// with the same digit keep their order.
static __global__ void __launch_bounds__(kSortThreads)
    place_pairs(std::int64_t count, int pass, SortPairs from, const int* begins, SortPairs to) {
  __shared__ int of_warp[kSortWarps][kDigits];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
  for (int each = 0; each < kSortWarps; ++each) of_warp[each][threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t i = pair_of_thread();
  const bool has_pair = i < count;
  const int key = has_pair ? from.keys[i] : 0;
  const int digit = digit_of(key, pass);
  const unsigned lanes = lanes_with_digit(digit, has_pair);
  const int earlier = __popc(lanes & ((1U << lane) - 1));
  if (has_pair && earlier == 0) of_warp[warp][digit] = __popc(lanes);
  __syncthreads();
  if (!has_pair) return;
  int place = begins[static_cast<std::int64_t>(digit) * gridDim.x + blockIdx.x] + earlier;
  for (int each = 0; each < warp; ++each) place += of_warp[each][digit];
  to.keys[place] = key;
  to.values[place] = from.values[i];
}

// Groups the positions of ids by the row that they name. Positions are sorted by row. Each row that is named gets a
// range of the sorted list with its positions in ascending order. The order of the occupied rows among each other
// depends on timing.

/// The groups, in device memory.
struct RowGroups {
  int* occupied;       ///< number of rows with positions
  int* occupied_rows;  ///< [occupied]
  int* begins;         ///< [rows] where the range of an occupied row begins
  int* ends;           ///< [rows] where the range ends; 0: no position names the row
  int* positions;      ///< [positions] the list
};

/// Marks all rows as not occupied. Runs first.
static __global__ void __launch_bounds__(kSortThreads) clear_groups(std::int64_t rows, RowGroups groups) {
  const std::int64_t row = pair_of_thread();
  if (row < rows) groups.ends[row] = 0;
  if (row == 0) *groups.occupied = 0;
}

/// Makes pairs of a row and a position that names it. Positions that name no row get a row past the last one.
static __global__ void __launch_bounds__(kSortThreads)
    pair_positions(std::int64_t count, DimIndexMap table_rows, const std::int32_t* ids, SortPairs pairs) {
  const std::int64_t i = pair_of_thread();
  if (i >= count) return;
  const std::int64_t row = table_rows.local_index(ids[i]);
  pairs.keys[i] = static_cast<int>(row >= 0 ? row : table_rows.local_size);
  pairs.values[i] = static_cast<int>(i);
}

/// Finds the range of each row in the sorted list. A warp appends all of its new rows at once.
static __global__ void __launch_bounds__(kSortThreads)
    find_pieces(std::int64_t count, std::int64_t rows, const int* sorted_rows, RowGroups groups) {
  const std::int64_t i = pair_of_thread();
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row = i < count ? sorted_rows[i] : static_cast<int>(rows);
  const bool is_occupied = row < rows;
  const bool is_first = is_occupied && (i == 0 || sorted_rows[i - 1] != row);
  const bool is_last = is_occupied && (i + 1 == count || sorted_rows[i + 1] != row);
  if (is_first) groups.begins[row] = static_cast<int>(i);
  if (is_last) groups.ends[row] = static_cast<int>(i) + 1;

  const unsigned firsts = __ballot_sync(kFullMask, is_first);
  int place = 0;
  if (lane == 0 && firsts != 0) place = atomicAdd(groups.occupied, __popc(firsts));
  place = __shfl_sync(kFullMask, place, 0);
  if (is_first) groups.occupied_rows[place + __popc(firsts & ((1U << lane) - 1))] = row;
}

/// Groups the positions of ids by the table row that each id names. Holds the workspace layout and the launches.
class PositionGroups {
 public:
  PositionGroups(DimIndexMap table_rows, std::int64_t count)
      : table_rows_(table_rows),
        count_(count),
        passes_(passes_for(table_rows.local_size)),
        occupied_(reserve(1)),
        occupied_rows_(reserve(std::min(table_rows.local_size, count))),
        begins_(reserve(table_rows.local_size)),
        ends_(reserve(table_rows.local_size)),
        digits_(reserve(digit_counts())) {
    for (PairsOffset& each : pairs_) each = {reserve(count), reserve(count)};
  }

  [[nodiscard]] std::int64_t bytes() const { return plan_.bytes(); }

  /// Groups the positions in `ids`.
  RowGroups make(const KernelArguments& arguments, const std::int32_t* ids) const {
    const Stream stream = arguments.stream;
    const auto at = [&](std::int64_t offset) { return workspace_at<int>(arguments, offset); };
    std::array<SortPairs, 2> pairs{};
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {at(pairs_[i].keys), at(pairs_[i].values)};
    // The last pass writes the sorted pairs to this buffer.
    const SortPairs sorted = pairs[0];
    if (passes_ % 2 == 1) std::swap(pairs[0], pairs[1]);
    launch(pair_positions, threads_for(count_), stream, count_, table_rows_, ids, pairs[0]);
    for (int pass = 0; pass < passes_; ++pass) {
      sort_by_digit(pass, pairs[0], pairs[1], at(digits_), stream);
      std::swap(pairs[0], pairs[1]);
    }
    const RowGroups groups{.occupied = at(occupied_),
                           .occupied_rows = at(occupied_rows_),
                           .begins = at(begins_),
                           .ends = at(ends_),
                           .positions = sorted.values};
    launch(clear_groups, threads_for(std::max<std::int64_t>(table_rows_.local_size, 1)), stream, table_rows_.local_size,
           groups);
    launch(find_pieces, threads_for(count_), stream, count_, table_rows_.local_size, sorted.keys, groups);
    return groups;
  }

 private:
  struct PairsOffset {
    std::int64_t keys = 0;
    std::int64_t values = 0;
  };

  static Geometry threads_for(std::int64_t items) {
    return {.grid = {blocks_for(items, kSortThreads)}, .block = {kSortThreads}};
  }
  [[nodiscard]] std::int64_t digit_counts() const { return std::int64_t{kDigits} * blocks_for(count_, kSortThreads); }
  std::int64_t reserve(std::int64_t count) { return plan_.reserve(count * static_cast<std::int64_t>(sizeof(int))); }

  void sort_by_digit(int pass, const SortPairs& from, const SortPairs& to, int* counts, Stream stream) const {
    launch(count_digits, threads_for(count_), stream, count_, pass, from.keys, counts);
    launch(add_up_counts, {.grid = {1}, .block = {kScanThreads}}, stream, digit_counts(), counts);
    launch(place_pairs, threads_for(count_), stream, count_, pass, from, counts, to);
  }

  DimIndexMap table_rows_;
  std::int64_t count_;
  int passes_;
  WorkspacePlan plan_;
  std::int64_t occupied_;
  std::int64_t occupied_rows_;
  std::int64_t begins_;
  std::int64_t ends_;
  std::int64_t digits_;
  std::array<PairsOffset, 2> pairs_;
};

/// Lanes per row of the table, and rows per block.
inline constexpr int kEmbeddingLanes = kWarpSize;
inline constexpr int kEmbeddingRows = 8;

/// y[i] = table[ids[i]], or zeros if the id is negative or in another shard. A warp copies a row.
template <class T, int kWidth>
__global__ void __launch_bounds__(kEmbeddingLanes* kEmbeddingRows)
    embedding(std::int64_t count, int columns, DimIndexMap table_rows, const T* table, const std::int32_t* ids, T* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kEmbeddingRows + threadIdx.y;
  if (i >= count) return;
  const std::int64_t row = table_rows.local_index(ids[i]);
  T* to = y + i * columns;
  const auto each_run = [&](const auto& copy) {
    for (int column = static_cast<int>(threadIdx.x) * kWidth; column < columns; column += kEmbeddingLanes * kWidth) {
      copy(column);
    }
  };
  if (row < 0) {
    const Accumulate<T> zeros[kWidth] = {};
    each_run([&](int column) { store_run<kWidth>(to + column, zeros); });
  } else {
    const T* from = table + row * columns;
    each_run([&](int column) {
      Accumulate<T> values[kWidth];
      load_run<kWidth>(from + column, values);
      store_run<kWidth>(to + column, values);
    });
  }
}

/// dtable[row] (+)= the rows of dy that name it, for block (occupied row, tile of columns). Each warp sums every
/// kTileRows-th of them, and the sums of the warps are added in order. So the order of additions depends only on the
/// ids.
template <class T, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    embedding_gradient(int columns, RowGroups groups, const T* dy, Accumulate<T>* dtable, bool accumulate) {
  using V = Accumulate<T>;
  if (static_cast<int>(blockIdx.x) >= *groups.occupied) return;
  const std::int64_t row = groups.occupied_rows[blockIdx.x];
  const int* positions = groups.positions + groups.begins[row];
  const int size = groups.ends[row] - groups.begins[row];
  const int tile = static_cast<int>(blockIdx.y) * kTileColumns<kWidth>;
  const int column = tile + static_cast<int>(threadIdx.x) * kWidth;

  V sum[kWidth] = {};
  if (column < columns) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < size; i += kTileRows) {
      V values[kWidth];
      load_run<kWidth>(dy + static_cast<std::int64_t>(positions[i]) * columns + column, values);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += values[j];
    }
  }
  const V total = sum_over_tile_rows(sum);
  const int own = thread_rank();
  if (own >= kTileColumns<kWidth> || tile + own >= columns) return;
  V* to = dtable + row * columns + tile + own;
  *to = accumulate ? *to + total : total;
}

/// Sets the rows that no id names to 0.
template <class V, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    clear_unoccupied_rows(std::int64_t rows, int columns, RowGroups groups, V* dtable) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTileRows + threadIdx.y;
  if (row >= rows || groups.ends[row] > 0) return;
  const V zeros[kWidth] = {};
  for (int column = static_cast<int>(threadIdx.x) * kWidth; column < columns; column += kTileLanes * kWidth) {
    store_run<kWidth>(dtable + row * columns + column, zeros);
  }
}

namespace {

constexpr auto kEmbedding = []<class T>(const OpInstance& op) -> PreparedKernel {
  const std::int64_t count = elements(op.operands[1]);
  const std::int64_t width = columns(op.operands[0]);
  return {[=, table_rows = dim_index_map(op, op.operands[0].dims[0])](const KernelArguments& arguments) {
    const T* table = in<T>(arguments, 0);
    T* y = out<T>(arguments, 0);
    const Geometry geometry{.grid = {blocks_for(count, kEmbeddingRows)}, .block = {kEmbeddingLanes, kEmbeddingRows}};
    const auto launch_with = [&]<int kWidth>() {
      launch(embedding<T, kWidth>, geometry, arguments.stream, count, width, table_rows, table,
             in<std::int32_t>(arguments, 1), y);
    };
    const bool packed = width % kPackedElements<T> == 0 && are_aligned(table, y);
    packed ? launch_with.template operator()<kPackedElements<T>>() : launch_with.template operator()<1>();
  }};
};

constexpr auto kEmbeddingGradient = []<class T>(const OpInstance& op) -> PreparedKernel {
  using V = Accumulate<T>;
  const std::int64_t count = elements(op.operands[1]);
  const std::int64_t width = columns(op.results[0]);
  const DimIndexMap table_rows = dim_index_map(op, op.results[0].dims[0]);
  const PositionGroups positions(table_rows, count);
  const auto launch_all = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
    const T* dy = in<T>(arguments, 0);
    V* dtable = out<V>(arguments, 0);
    const RowGroups groups = positions.make(arguments, in<std::int32_t>(arguments, 1));

    const auto clear = [&]<int kWidth>() {
      const Geometry geometry{.grid = {blocks_for(table_rows.local_size, kTileRows)}, .block = {kTileLanes, kTileRows}};
      launch(clear_unoccupied_rows<V, kWidth>, geometry, arguments.stream, table_rows.local_size, width, groups,
             dtable);
    };
    const bool clears_packed = width % kPackedElements<V> == 0 && are_aligned(dtable);
    if (!accumulate) {
      clears_packed ? clear.template operator()<kPackedElements<V>>() : clear.template operator()<1>();
    }

    const auto add = [&]<int kWidth>() {
      const Geometry geometry{
          .grid = {blocks_for(std::min(count, table_rows.local_size), 1), blocks_for(width, kTileColumns<kWidth>)},
          .block = {kTileLanes, kTileRows}};
      launch(embedding_gradient<T, kWidth>, geometry, arguments.stream, width, groups, dy, dtable, accumulate);
    };
    const bool adds_packed = width % kPackedElements<T> == 0 && are_aligned(dy);
    adds_packed ? add.template operator()<kPackedElements<T>>() : add.template operator()<1>();
  };
  return {launch_all, positions.bytes()};
};

}  // namespace

void register_embedding(Registration& registration) {
  add(registration, {"embedding", "ti", "t"}, kEmbedding);
  add(registration, {"embedding_gradient", "ti", "f", true}, kEmbeddingGradient);
}

}  // namespace strata::cuda
