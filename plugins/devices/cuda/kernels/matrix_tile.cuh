#pragma once

#include "kernels/tile_lines.cuh"

/// \file
/// Products of matrices of 16-bit elements by tiles, with matrix units and asynchronous copies. Lines start at
/// multiples of 16 bytes, and have multiples of 8 elements.

namespace strata::cuda {

/// Stages of one operand of a tile's product: kDepth terms of kSide rows or columns. A chunk of 16 bytes has a place by
/// which ldmatrix, which reads the same chunk of eight neighbouring lines at once, finds them in eight different groups
/// of four banks.
template <class T, Line kLine, int kSide, int kDepth, int kThreads>
class Stages {
 public:
  static constexpr int kElements = kSide * kDepth;

  /// Loads 16 rows, from `row` on, and 16 terms of each, as the left operand of mma_m16n8k16.
  static __device__ __forceinline__ void load_left(std::uint32_t (&pieces)[4], const T* stage, int row, int term) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    if constexpr (kLine == Line::result) {
      ldmatrix_x4(pieces, stage + place(row + lane % 16, term / kChunk + lane / 16));
    } else {
      ldmatrix_x4_trans(pieces, stage + place(term + lane / 16 * 8 + lane % 8, row / kChunk + lane / 8 % 2));
    }
  }

  /// Loads 16 columns, from `column` on, and 16 terms of each, as two right operands of mma_m16n8k16.
  static __device__ __forceinline__ void load_right(std::uint32_t (&pieces)[4], const T* stage, int column, int term) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    if constexpr (kLine == Line::result) {
      ldmatrix_x4(pieces, stage + place(column + lane / 16 * 8 + lane % 8, term / kChunk + lane / 8 % 2));
    } else {
      ldmatrix_x4_trans(pieces, stage + place(term + lane % 16, column / kChunk + lane / 16));
    }
  }

 protected:
  static constexpr int kChunk = kPackedElements<T>;
  static constexpr int kLineElements = kLine == Line::result ? kDepth : kSide;
  static constexpr int kChunks = kLineElements / kChunk;
  static constexpr int kLines = kElements / kLineElements;
  static constexpr int kLineStep = kThreads / kChunks;
  static constexpr int kCopies = kLines / kLineStep;
  static_assert(sizeof(T) == 2 && (kChunks == 4 || kChunks % 8 == 0) && kLines % kLineStep == 0);

  /// The thread copies the same chunk of every kLineStep-th line.
  static __device__ __forceinline__ int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }
  static __device__ __forceinline__ int line(int i) { return static_cast<int>(threadIdx.x) / kChunks + i * kLineStep; }

  /// Where a chunk is in a stage, in elements. Lines of four chunks share the 128 bytes of all banks by twos.
  static __device__ __forceinline__ int place(int line, int chunk) {
    if constexpr (kChunks == 4) return line * kLineElements + (chunk ^ (line / 2 & 3)) * kChunk;
    return line * kLineElements + (chunk ^ (line & 7)) * kChunk;
  }
};

/// An operand whose lines are in memory as Lines says.
template <class T, Line kLine, int kSide, int kDepth, int kThreads>
class LinesOperand : public Stages<T, kLine, kSide, kDepth, kThreads> {
  using Base = Stages<T, kLine, kSide, kDepth, kThreads>;

 public:
  __device__ __forceinline__ explicit LinesOperand(const Lines<T>& lines) : lines_(lines) { find_lines(0); }

  /// Starts to copy the next stage. Elements that do not exist are zero.
  __device__ __forceinline__ void load(T* stage) {
#pragma unroll
    for (int i = 0; i < Base::kCopies; ++i) {
      const int element = (kLine == Line::result ? first_ : 0) + Base::chunk() * Base::kChunk;
      const bool exists = numbers_[i] >= 0 && element < lines_.width;
      copy_async(stage + Base::place(Base::line(i), Base::chunk()),
                 exists ? lines_.start(numbers_[i]) + element : lines_.first, exists);
    }
    first_ += kDepth;
    // Numbers of gathered lines are loaded one stage ahead, so that copies do not wait for them.
    if constexpr (kLine == Line::term) find_lines(first_);
  }

 private:
  __device__ __forceinline__ void find_lines(int first) {
#pragma unroll
    for (int i = 0; i < Base::kCopies; ++i) numbers_[i] = lines_.number(first + Base::line(i));
  }

  Lines<T> lines_;
  int numbers_[Base::kCopies];
  int first_ = 0;
};

/// Computes tiles of kRows rows and kSide columns of a product. Each of four warps has a quarter. Blocks have kThreads
/// threads and kSharedBytes of dynamic shared memory, of which two blocks fit a multiprocessor with 164 KiB.
template <class T, int kTileRows = 128>
struct MatrixTile {
  using V = float;
  static constexpr int kRows = kTileRows;
  static constexpr int kSide = 128;
  static constexpr int kThreads = 128;
  /// Neighbouring elements that a thread may load and store at once.
  static constexpr int kRun = 8;
  /// Elements in a row of the result. Four neighbouring rows begin in different groups of eight banks.
  static constexpr int kStride = kSide + 8;
  static constexpr int kDepth = 32;
  static constexpr int kStages = 4;
  static constexpr std::size_t kStageBytes = sizeof(T) * (kRows + kSide) * kDepth;
  static constexpr std::size_t kResultBytes = sizeof(V) * kRows * kStride;
  static constexpr std::size_t kSharedBytes = kResultBytes > kStages* kStageBytes ? kResultBytes : kStages* kStageBytes;

  template <Line kLine>
  using LeftStages = Stages<T, kLine, kRows, kDepth, kThreads>;
  template <Line kLine>
  using RightStages = Stages<T, kLine, kSide, kDepth, kThreads>;
  template <Line kLine>
  using LeftLines = LinesOperand<T, kLine, kRows, kDepth, kThreads>;
  template <Line kLine>
  using RightLines = LinesOperand<T, kLine, kSide, kDepth, kThreads>;

  /// Σ of left[row, k] · right[k, column] over `depth` terms. \return the tile in shared memory, with kStride elements
  /// in a row. Only `rows` and `columns` of it are computed.
  template <Line kLeft, Line kRight>
  static __device__ __forceinline__ const V* product(const Lines<T>& left, const Lines<T>& right, int depth, int rows,
                                                     int columns) {
    return multiply(LeftLines<kLeft>(left), RightLines<kRight>(right), depth, rows, columns);
  }

  /// The same for operands of other classes, which derive from Stages and have a function load().
  template <class Left, class Right>
  static __device__ __forceinline__ const V* multiply(Left left, Right right, int depth, int rows, int columns) {
    T* stages = dynamic_shared<T>();
    const auto load = [&](int step) {
      T* stage = stages + step % kStages * (Left::kElements + Right::kElements);
      left.load(stage);
      right.load(stage + Left::kElements);
    };
    const int steps = (depth + kDepth - 1) / kDepth;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const int first_row = warp / 2 * kWarpRows;
    const int first_column = warp % 2 * kWarpColumns;
    const bool has_work = first_row < rows && first_column < columns;
    Sums sums = {};
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
      if (step < steps) load(step);
      commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
      wait_copies<kStages - 2>();
      __syncthreads();  // The stage is loaded, and all warps have read the last one.
      if (step + kStages - 1 < steps) load(step + kStages - 1);
      commit_copies();
      const T* stage = stages + step % kStages * (Left::kElements + Right::kElements);
      if (has_work) multiply_stage<Left, Right>(sums, stage, stage + Left::kElements, first_row, first_column);
    }
    wait_copies<0>();
    __syncthreads();
    V* result = dynamic_shared<V>();
    if (has_work) store(result, sums, first_row, first_column);
    __syncthreads();
    return result;
  }

 private:
  static constexpr int kWarpRows = kRows / 2;
  static constexpr int kWarpColumns = kSide / 2;
  using Sums = float[kWarpRows / 16][kWarpColumns / 8][4];

  /// Loads the fragments of 16 terms before it multiplies those of the 16 terms before them.
  template <class Left, class Right>
  static __device__ __forceinline__ void multiply_stage(Sums& sums, const T* left, const T* right, int first_row,
                                                        int first_column) {
    constexpr int kRowPieces = kWarpRows / 16;
    constexpr int kColumnPieces = kWarpColumns / 16;
    std::uint32_t a[2][kRowPieces][4];
    std::uint32_t b[2][kColumnPieces][4];
    const auto load = [&](int term) {
#pragma unroll
      for (int i = 0; i < kRowPieces; ++i) Left::load_left(a[term / 16 % 2][i], left, first_row + 16 * i, term);
#pragma unroll
      for (int j = 0; j < kColumnPieces; ++j)
        Right::load_right(b[term / 16 % 2][j], right, first_column + 16 * j, term);
    };
    load(0);
#pragma unroll
    for (int term = 0; term < kDepth; term += 16) {
      if (term + 16 < kDepth) load(term + 16);
#pragma unroll
      for (int i = 0; i < kRowPieces; ++i) {
#pragma unroll
        for (int j = 0; j < kColumnPieces; ++j) multiply_pair(sums[i], j, a[term / 16 % 2][i], b[term / 16 % 2][j]);
      }
    }
  }

  /// Adds the products of 16 rows with 16 columns.
  static __device__ __forceinline__ void multiply_pair(float (&sums)[kWarpColumns / 8][4], int pair,
                                                       const std::uint32_t (&a)[4], const std::uint32_t (&b)[4]) {
    const std::uint32_t first[2] = {b[0], b[1]};
    const std::uint32_t second[2] = {b[2], b[3]};
    mma_m16n8k16<T>(sums[2 * pair], a, first, sums[2 * pair]);
    mma_m16n8k16<T>(sums[2 * pair + 1], a, second, sums[2 * pair + 1]);
  }

  static __device__ __forceinline__ void store(V* result, const Sums& sums, int first_row, int first_column) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int i = 0; i < kWarpRows / 16; ++i) {
#pragma unroll
      for (int j = 0; j < kWarpColumns / 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = first_row + 16 * i + 8 * half + lane / 4;
          const int column = first_column + 8 * j + 2 * (lane % 4);
          store_packed(result + row * kStride + column,
                       Packed<float, 2>{{sums[i][j][2 * half], sums[i][j][2 * half + 1]}});
        }
      }
    }
  }
};

}  // namespace strata::cuda
