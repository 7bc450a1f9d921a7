#pragma once

#include "kernels/activation.cuh"
#include "kernels/matrix_tile.cuh"
#include "kernels/plain_tile.cuh"

/// \file
/// Products of the choices of tokens with the matrices of their experts. `Tile` is MatrixTile<T> or PlainTile<T>. Rows
/// of choices are stored in T, which is also the type of the products' factors.

namespace strata::cuda {

// The choices of tokens, sorted by expert: for each, its token and gate. Their number is known on the device only, so
// grids have as many blocks as the planned number of choices may need, and blocks look up their tile of choices.

/// Sizes of an op on experts.
struct ExpertShape {
  std::int64_t tokens;
  std::int64_t width;    // of the stream
  std::int64_t experts;  // of this rank
  std::int64_t inner;
};

/// Neighbouring choices of one expert.
struct Segment {
  int expert;
  int begin;
  int end;
};

/// The choices of all tokens, ordered by expert and then by token. V: the type of gates.
template <class V>
struct Choices {
  /// How many choices there is room for.
  int capacity;
  /// An expert's choices are those from offsets[expert] to offsets[expert + 1]. Behind them is how many choices the
  /// tokens have, which may be more than `capacity`.
  int* offsets;
  /// The token of each choice.
  int* token_of;
  /// The gate of each choice.
  V* gates;
  /// [tokens, experts]: the number of the choice, or -1.
  int* choice_of;
  /// The choices in tiles. The last tiles are empty.
  Segment* tiles;
  int tile_count;
};

/// Choices are counted and listed by blocks that have kListTokens tokens. Each warp has some of the experts.
constexpr int kListTokens = 256;
constexpr int kListThreads = 256;

/// The gate of an expert for the lane's token. A warp has 32 tokens, from the block's token `first` on.
template <class V, class G>
struct LaneGate {
  std::int64_t token;
  V gate;
  /// Bits of the lanes whose tokens choose the expert.
  unsigned chosen;

  __device__ __forceinline__ LaneGate(const ExpertShape& shape, const G* gates, std::int64_t expert, int first)
      : token(std::int64_t{blockIdx.x} * kListTokens + first + threadIdx.x % kWarpSize) {
    gate = token < shape.tokens ? static_cast<V>(widen(gates[token * shape.experts + expert])) : V{0};
    chosen = __ballot_sync(kFullMask, gate != 0);
  }
};

/// counts[expert, block] = how many of the block's tokens choose the expert.
template <class V, class G>
__global__ void count_choices(ExpertShape shape, const G* gates, int* counts) {
  for (std::int64_t expert = threadIdx.x / kWarpSize; expert < shape.experts; expert += kListThreads / kWarpSize) {
    int count = 0;
    for (int i = 0; i < kListTokens; i += kWarpSize) count += __popc(LaneGate<V, G>(shape, gates, expert, i).chosen);
    if (threadIdx.x % kWarpSize == 0) counts[expert * gridDim.x + blockIdx.x] = count;
  }
}

/// Calls put(i, get(0) + … + get(i - 1)) for i of [0, count). \return the sum of all. The block has kListThreads
/// threads, which see each other's writes when the function returns.
template <class Get, class Put>
__device__ __forceinline__ int add_before(int count, const Get& get, const Put& put) {
  constexpr int kWarps = kListThreads / kWarpSize;
  __shared__ int sums_of_warps[kWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const int run = (count + kListThreads - 1) / kListThreads;
  const int begin = thread * run;
  const int end = begin + run < count ? begin + run : count;
  int own = 0;
  for (int i = begin; i < end; ++i) own += get(i);
  const int sum = warp_inclusive_sum(own);
  if (thread % kWarpSize == kWarpSize - 1) sums_of_warps[thread / kWarpSize] = sum;
  __syncthreads();
  int before = sum - own;
  int total = 0;
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < thread / kWarpSize) before += sums_of_warps[warp];
    total += sums_of_warps[warp];
  }
  for (int i = begin; i < end; ++i) {
    const int value = get(i);
    put(i, before);
    before += value;
  }
  __syncthreads();
  return total;
}

/// Turns counts[expert, block] into the number of the first choice of each, and divides the choices of experts into
/// tiles of `side`. One block.
template <class V>
__global__ void place_choices(int experts, int blocks, int side, int* counts, Choices<V> choices) {
  const int total = add_before(
      experts * blocks, [&](int i) { return counts[i]; },
      [&](int i, int before) {
        counts[i] = before;
        if (i % blocks == 0) choices.offsets[i / blocks] = before < choices.capacity ? before : choices.capacity;
      });
  if (threadIdx.x == 0) {
    choices.offsets[experts] = total < choices.capacity ? total : choices.capacity;
    choices.offsets[experts + 1] = total;
  }
  __syncthreads();
  const auto tiles_of = [&](int expert) {
    return (choices.offsets[expert + 1] - choices.offsets[expert] + side - 1) / side;
  };
  const int tiles = add_before(experts, tiles_of, [&](int expert, int tile) {
    const int end = choices.offsets[expert + 1];
    for (int begin = choices.offsets[expert]; begin < end; begin += side) {
      choices.tiles[tile++] = {expert, begin, begin + side < end ? begin + side : end};
    }
  });
  for (int i = tiles + static_cast<int>(threadIdx.x); i < choices.tile_count; i += kListThreads) {
    choices.tiles[i] = {0, 0, 0};
  }
}

/// Lists the choices. first[expert, block]: the number of the block's first choice of the expert.
template <class V, class G>
__global__ void list_choices(ExpertShape shape, const G* gates, const int* first, Choices<V> choices) {
  const unsigned lower_lanes = (1U << threadIdx.x % kWarpSize) - 1;
  for (std::int64_t expert = threadIdx.x / kWarpSize; expert < shape.experts; expert += kListThreads / kWarpSize) {
    int next = first[expert * gridDim.x + blockIdx.x];
    for (int i = 0; i < kListTokens; i += kWarpSize) {
      const LaneGate<V, G> of(shape, gates, expert, i);
      const int choice = next + __popc(of.chosen & lower_lanes);
      next += __popc(of.chosen);
      if (of.token >= shape.tokens) continue;
      const bool is_listed = of.gate != 0 && choice < choices.capacity;
      choices.choice_of[of.token * shape.experts + expert] = is_listed ? choice : -1;
      if (!is_listed) continue;
      choices.token_of[choice] = static_cast<int>(of.token);
      choices.gates[choice] = of.gate;
    }
  }
}

// Products.

/// Functions of gates in published models.
using ExpertActivations = ActivationList<GeluTanh, Relu, Silu>;

/// Calls body with the function number `kind` of the list.
template <class... Kinds, class Body>
__device__ __forceinline__ void with_activation(int kind, ActivationList<Kinds...> /*kinds*/, const Body& body) {
  int number = 0;
  ((number++ == kind ? body(Kinds{}) : void()), ...);
}

/// Rows of the tokens of a tile's choices.
template <class T>
__device__ __forceinline__ Lines<T> token_rows(const Segment& tile, const int* token_of, const T* rows,
                                               std::int64_t width) {
  return {rows, width, tile.end - tile.begin, static_cast<int>(width), token_of + tile.begin};
}

/// How many of `count` things are left from `first` on, at most `most`.
__device__ __forceinline__ int left_of(std::int64_t count, std::int64_t first, int most) {
  return count - first < most ? static_cast<int>(count - first) : most;
}

/// The inner values x · w_gateᵀ and x · w_upᵀ of every choice. hidden[choice] = f(the first) · the second, or
/// inner[choice] = both, one behind the other; the other pointer is null. Grid: columns by halves of a tile, since a
/// tile has both matrices' results for the same columns; tiles of choices.
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    multiply_inner(ExpertShape shape, Choices<Accumulate<T>> choices, int kind, const T* x, const T* w_gate,
                   const T* w_up, T* hidden, T* inner) {
  using V = Accumulate<T>;
  constexpr int kColumns = Tile::kSide / 2;
  const Segment tile = choices.tiles[blockIdx.y];
  const int rows = tile.end - tile.begin;
  if (rows <= 0) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * kColumns;
  const int columns = left_of(shape.inner, first, kColumns);
  const std::int64_t from = (tile.expert * shape.inner + first) * shape.width;
  const int width = static_cast<int>(shape.width);
  const Lines<T> weights{w_gate + from, shape.width, columns, width, nullptr, w_up + from, kColumns};
  const V* sums = Tile::template product<Line::result, Line::result>(token_rows(tile, choices.token_of, x, shape.width),
                                                                     weights, width, rows, kColumns + columns);
  using Runs = TileRuns<Tile, kColumns>;
  const int column = Runs::column();
  if (column >= columns) return;
  const auto each_run = [&](const auto& body) {
    for (int row = Runs::row(0); row < rows; row += Runs::kRowStep) {
      V gate[Runs::kRun];
      V up[Runs::kRun];
      load_run(sums + row * Tile::kStride + column, gate);
      load_run(sums + row * Tile::kStride + kColumns + column, up);
      body(tile.begin + row, gate, up);
    }
  };
  if (hidden == nullptr) {
    return each_run([&](std::int64_t choice, const auto& gate, const auto& up) {
      T* to = inner + choice * 2 * shape.inner + first + column;
      store_run(to, gate);
      store_run(to + shape.inner, up);
    });
  }
  with_activation(kind, ExpertActivations{}, [&](auto of) {
    each_run([&](std::int64_t choice, const auto& gate, auto& up) {
      for (int i = 0; i < Runs::kRun; ++i) up[i] *= of.value(gate[i]);
      store_run(hidden + choice * shape.inner + first + column, up);
    });
  });
}

/// The gradients of a run of a choice's inner values, in their place. d: the gradients of the hidden values before they
/// are multiplied by the gate. hidden: becomes the hidden values times the gate. \return the run's part of the gate's
/// gradient.
template <class Activation, class V, int kRun>
__device__ __forceinline__ V differentiate_run(Activation of, V gate, const V (&d)[kRun], V (&pre)[kRun], V (&up)[kRun],
                                               V (&hidden)[kRun]) {
  V d_gate = 0;
#pragma unroll
  for (int j = 0; j < kRun; ++j) {
    const V value = of.value(pre[j]);
    d_gate += value * up[j] * d[j];
    hidden[j] = gate * value * up[j];
    pre[j] = gate * d[j] * up[j] * of.derivative(pre[j]);
    up[j] = gate * d[j] * value;
  }
  return d_gate;
}

/// The gradients of the inner values of every choice, from the inner values, in their place. d_hidden = dy · w_down.
/// If `hidden` is given, it becomes the hidden values times their gates. If `d_gates` is given, d_gates[choice, tile of
/// columns] become sums of which the gradient of the gate is the sum. Grid: tiles of columns, tiles of choices.
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    differentiate_inner(ExpertShape shape, Choices<Accumulate<T>> choices, int kind, const T* dy, const T* w_down,
                        T* inner, T* hidden, Accumulate<T>* d_gates) {
  using V = Accumulate<T>;
  using Runs = TileRuns<Tile>;
  constexpr int kRun = Runs::kRun;
  const Segment tile = choices.tiles[blockIdx.y];
  const int rows = tile.end - tile.begin;
  if (rows <= 0) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * Tile::kSide;
  const int columns = left_of(shape.inner, first, Tile::kSide);
  const int width = static_cast<int>(shape.width);
  const Lines<T> weights{w_down + tile.expert * shape.width * shape.inner + first, shape.inner, width, columns};
  const V* sums = Tile::template product<Line::result, Line::term>(token_rows(tile, choices.token_of, dy, shape.width),
                                                                   weights, width, rows, columns);
  const int column = Runs::column();
  with_activation(kind, ExpertActivations{}, [&](auto of) {
    constexpr int kGroup = 4;  // rows whose inner values are loaded at once
    static_assert(Runs::kCount % kGroup == 0);
    for (int group = 0; group < Runs::kCount; group += kGroup) {
      V gates[kGroup][kRun] = {};
      V ups[kGroup][kRun] = {};
      const auto exists = [&](int i) { return Runs::row(group + i) < rows && column < columns; };
      const auto inner_of = [&](int i) {
        return inner + std::int64_t{tile.begin + Runs::row(group + i)} * 2 * shape.inner + first + column;
      };
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        if (!exists(i)) continue;
        load_run(inner_of(i), gates[i]);
        load_run(inner_of(i) + shape.inner, ups[i]);
      }
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const std::int64_t choice = tile.begin + Runs::row(group + i);
        V d_gate = 0;
        if (exists(i)) {
          V d[kRun];
          V gated[kRun];
          load_run(sums + Runs::row(group + i) * Tile::kStride + column, d);
          d_gate = differentiate_run(of, choices.gates[choice], d, gates[i], ups[i], gated);
          store_run(inner_of(i), gates[i]);
          store_run(inner_of(i) + shape.inner, ups[i]);
          if (hidden != nullptr) store_run(hidden + choice * shape.inner + first + column, gated);
        }
        if (d_gates == nullptr) continue;
        d_gate = warp_reduce<Runs::kThreadsOfRow>(d_gate, Sum{});
        if (column == 0 && exists(i)) d_gates[choice * gridDim.x + blockIdx.x] = d_gate;
      }
    }
  });
}

/// sums[choice] = rows[choice] · wᵀ of the choice's expert. With kOfGradients, a row has the gradients of both inner
/// values, one behind the other: sums[choice] = the first · w + the second · w_up. Grid: tiles of columns, tiles of
/// choices.
template <class T, class Tile, bool kOfGradients>
__global__ void __launch_bounds__(Tile::kThreads)
    multiply_rows(ExpertShape shape, Choices<Accumulate<T>> choices, const T* rows_of_choices, const T* w,
                  const T* w_up, Accumulate<T>* sums) {
  using V = Accumulate<T>;
  using Runs = TileRuns<Tile>;
  const Segment tile = choices.tiles[blockIdx.y];
  const int rows = tile.end - tile.begin;
  if (rows <= 0) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * Tile::kSide;
  const int columns = left_of(shape.width, first, Tile::kSide);
  const int inner = static_cast<int>(shape.inner);
  const int depth = kOfGradients ? 2 * inner : inner;
  const std::int64_t from = tile.expert * shape.inner * shape.width + (kOfGradients ? first : first * shape.inner);
  const Lines<T> left{rows_of_choices + std::int64_t{tile.begin} * depth, depth, rows, depth};
  const Lines<T> right = kOfGradients ? Lines<T>{w + from, shape.width, inner, columns, nullptr, w_up + from, inner}
                                      : Lines<T>{w + from, shape.inner, columns, inner};
  constexpr Line kRight = kOfGradients ? Line::term : Line::result;
  const V* tile_sums = Tile::template product<Line::result, kRight>(left, right, depth, rows, columns);
  const int column = Runs::column();
  if (column >= columns) return;
  for (int row = Runs::row(0); row < rows; row += Runs::kRowStep) {
    V values[Runs::kRun];
    load_run(tile_sums + row * Tile::kStride + column, values);
    store_run(sums + (tile.begin + row) * shape.width + first + column, values);
  }
}

/// dw[expert, i, j] = Σ over the expert's choices of left[choice, i] · right[choice, j], plus dw if it accumulates.
/// The rows i are those of dw, and then those of dw_up. Lines are those of choices, or tokens' by `token_of`. Grid:
/// tiles of columns, tiles of rows, experts.
template <class T, class Tile, class R, bool kLeftOfTokens>
__global__ void __launch_bounds__(Tile::kThreads)
    sum_outer_products(Choices<Accumulate<T>> choices, int rows, int columns, int rows_of_dw, const T* left,
                       const T* right, R* dw, R* dw_up, bool accumulate) {
  using V = Accumulate<T>;
  using Runs = TileRuns<Tile>;
  const std::int64_t expert = blockIdx.z;
  const Segment segment{static_cast<int>(expert), choices.offsets[expert], choices.offsets[expert + 1]};
  const int first_row = static_cast<int>(blockIdx.y) * Tile::kSide;
  const int first_column = static_cast<int>(blockIdx.x) * Tile::kSide;
  const int count = segment.end - segment.begin;
  const auto lines = [&](bool of_tokens, const T* of, int width, int first, int most) {
    const Lines<T> all = of_tokens ? token_rows(segment, choices.token_of, of, width)
                                   : Lines<T>{of + std::int64_t{segment.begin} * width, width, count, width};
    return Lines<T>{all.first + first, width, count, left_of(width, first, most), all.numbers};
  };
  const Lines<T> left_lines = lines(kLeftOfTokens, left, rows, first_row, Tile::kSide);
  const Lines<T> right_lines = lines(!kLeftOfTokens, right, columns, first_column, Tile::kSide);
  const V* sums = Tile::template product<Line::term, Line::term>(left_lines, right_lines, count, left_lines.width,
                                                                 right_lines.width);
  const int column = Runs::column();
  if (column >= right_lines.width) return;
  for (int row = Runs::row(0); row < left_lines.width; row += Runs::kRowStep) {
    const int i = first_row + row;
    const std::int64_t of_matrix = i < rows_of_dw ? i : i - rows_of_dw;
    R* to = (i < rows_of_dw ? dw : dw_up) + (expert * rows_of_dw + of_matrix) * columns + first_column + column;
    V values[Runs::kRun];
    load_run(sums + row * Tile::kStride + column, values);
    if (accumulate) {
      Accumulate<R> before[Runs::kRun];
      load_run(to, before);
      for (int j = 0; j < Runs::kRun; ++j) values[j] += static_cast<V>(before[j]);
    }
    store_run(to, values);
  }
}

}  // namespace strata::cuda
