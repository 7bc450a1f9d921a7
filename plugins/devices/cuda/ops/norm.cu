#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "kernels/column_tile.cuh"
#include "kernels/team_row.cuh"
#include "language/launch.hpp"

namespace strata::cuda {

// Geometries of kernels that normalise rows, and of those that sum rows by columns.

/// Calls function.operator()<kWidth, kHeld>(geometry) with the values that fit the rows. Rows are read in runs of 16
/// bytes if their alignment allows it.
template <class T, class Function>
void with_teams(std::int64_t rows, std::int64_t columns, bool aligned, const Function& function) {
  constexpr int kWidth = kPackedElements<T>;
  const bool packed = aligned && columns % kWidth == 0;
  const std::int64_t lanes = columns / (packed ? kWidth : 1);
  const unsigned team = kWarpSize * std::max(1U, blocks_for(lanes, kHeldRuns * kWarpSize));
  Geometry geometry{.grid = {static_cast<unsigned>(rows)}, .block = {std::min<unsigned>(team, kLargestTeam)}};
  if (team == kWarpSize) geometry = {.grid = {blocks_for(rows, kWarpTeams)}, .block = {kWarpSize, kWarpTeams}};
  if (team > kLargestTeam) {
    packed ? function.template operator()<kWidth, 0>(geometry) : function.template operator()<1, 0>(geometry);
  } else {
    packed ? function.template operator()<kWidth, kHeldRuns>(geometry)
           : function.template operator()<1, kHeldRuns>(geometry);
  }
}

/// Distribution of rows over the blocks that sum them by columns.
struct Slices {
  std::int64_t count = 1;
  std::int64_t rows = 0;
};

template <class T>
Slices slices_of(std::int64_t rows, std::int64_t columns, const CudaEnvironment& environment) {
  constexpr int kBlocksPerMultiprocessor = 4;
  constexpr std::int64_t kLeastRows = 4 * kTileRows;
  const std::int64_t tiles = blocks_for(columns, kTileColumns<kPackedElements<T>>);
  const std::int64_t wanted = blocks_for(kBlocksPerMultiprocessor * environment.multiprocessors(), tiles);
  const std::int64_t each = std::max<std::int64_t>(blocks_for(rows, wanted), kLeastRows);
  return {std::max<std::int64_t>(blocks_for(rows, each), 1), each};
}

// With kCentered the norm is layer norm. Without it, it is RMS norm: the mean is 0, and there is no bias.

/// The statistics of rows. `inverse` is that of the standard deviation (RMS norm: of the root of the mean square), and
/// `mean` is null in RMS norm.
template <class Pointer>
struct RowStatistics {
  Pointer mean;
  Pointer inverse;
};

/// y = (x - mean) · inverse · gain + bias, for rows of `columns`. One team per row.
template <bool kCentered, class T, int kWidth, int kHeld>
__global__ void __launch_bounds__(kLargestTeam)
    norm_rows(std::int64_t rows, int columns, Accumulate<T> epsilon, const T* x, const Accumulate<T>* gain,
              const Accumulate<T>* bias, T* y, RowStatistics<Accumulate<T>*> of_rows) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_team();
  if (row >= rows) return;
  const TeamRow<T, kWidth, kHeld> values(x + row * columns, columns);

  V mean = 0;
  if constexpr (kCentered) {
    V sum = 0;
    for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
      V v[kWidth];
      values.read(column, slot, v);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum += v[i];
    });
    mean = team_sum(sum) / static_cast<V>(columns);
  }

  V squares = 0;
  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V v[kWidth];
    values.read(column, slot, v);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += (v[i] - mean) * (v[i] - mean);
  });
  const V inverse = V{1} / std::sqrt(team_sum(squares) / static_cast<V>(columns) + epsilon);

  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V v[kWidth];
    V g[kWidth];
    V b[kWidth];
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
    if constexpr (kCentered) load_run<kWidth>(bias + column, b);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      v[i] = (v[i] - mean) * inverse * g[i];
      if constexpr (kCentered) v[i] += b[i];
    }
    store_run<kWidth>(y + row * columns + column, v);
  });
  if (threadIdx.x == 0) {
    if constexpr (kCentered) of_rows.mean[row] = mean;
    of_rows.inverse[row] = inverse;
  }
}

/// With n = (x - mean) · inverse and g = dy · gain: dx = inverse · (g - average(g) - n · average(g · n)). RMS norm has
/// no average(g). dx may alias dy.
template <bool kCentered, class T, int kWidth, int kHeld>
__global__ void __launch_bounds__(kLargestTeam)
    norm_input_gradient_rows(std::int64_t rows, int columns, const T* dy, const T* x, const Accumulate<T>* gain,
                             RowStatistics<const Accumulate<T>*> of_rows, T* dx, bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_team();
  if (row >= rows) return;
  const TeamRow<T, kWidth, kHeld> gradients(dy + row * columns, columns);
  const TeamRow<T, kWidth, kHeld> values(x + row * columns, columns);
  // Read before the sums, which wait for memory, too.
  const TeamRow<T, kWidth, kHeld> before(dx + row * columns, accumulate ? columns : 0);
  V mean = 0;
  if constexpr (kCentered) mean = of_rows.mean[row];
  const V inverse = of_rows.inverse[row];

  V sum = 0;
  V product_sum = 0;
  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V d[kWidth];
    V v[kWidth];
    V g[kWidth];
    gradients.read(column, slot, d);
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if constexpr (kCentered) sum += d[i] * g[i];
      product_sum += d[i] * g[i] * ((v[i] - mean) * inverse);
    }
  });
  V average = 0;
  if constexpr (kCentered) average = team_sum(sum) / static_cast<V>(columns);
  const V product_average = team_sum(product_sum) / static_cast<V>(columns);

  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V d[kWidth];
    V v[kWidth];
    V g[kWidth];
    gradients.read(column, slot, d);
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      d[i] = inverse * (d[i] * g[i] - average - (v[i] - mean) * inverse * product_average);
    }
    if (accumulate) {
      V earlier[kWidth];
      before.read(column, slot, earlier);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) d[i] += earlier[i];
    }
    store_run<kWidth>(dx + row * columns + column, d);
  });
}

/// Number of parameters of a norm: gain and bias, or gain.
template <bool kCentered>
inline constexpr int kNormParameters = kCentered ? 2 : 1;

/// Block (tile, slice) stores in partial[slice][parameters][columns] the contributions of its slice's rows to the
/// gradients of gain and bias.
template <bool kCentered, class T, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    norm_parameter_gradient_slices(std::int64_t rows, int columns, std::int64_t rows_per_slice, const T* dy, const T* x,
                                   RowStatistics<const Accumulate<T>*> of_rows, Accumulate<T>* partial) {
  using V = Accumulate<T>;
  const int tile = static_cast<int>(blockIdx.x) * kTileColumns<kWidth>;
  const int column = tile + static_cast<int>(threadIdx.x) * kWidth;
  const std::int64_t begin = blockIdx.y * rows_per_slice;
  const std::int64_t end = begin + rows_per_slice < rows ? begin + rows_per_slice : rows;

  V gain_sum[kWidth] = {};
  V bias_sum[kWidth] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kTileRows) {
      V d[kWidth];
      V v[kWidth];
      load_run<kWidth>(dy + row * columns + column, d);
      load_run<kWidth>(x + row * columns + column, v);
      V mean = 0;
      if constexpr (kCentered) mean = of_rows.mean[row];
      const V inverse = of_rows.inverse[row];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        gain_sum[i] += d[i] * ((v[i] - mean) * inverse);
        if constexpr (kCentered) bias_sum[i] += d[i];
      }
    }
  }
  const V gain_total = sum_over_tile_rows(gain_sum);
  V bias_total = 0;
  if constexpr (kCentered) bias_total = sum_over_tile_rows(bias_sum);
  const int own = thread_rank();
  if (own >= kTileColumns<kWidth> || tile + own >= columns) return;
  V* to = partial + static_cast<std::int64_t>(blockIdx.y) * kNormParameters<kCentered> * columns + tile + own;
  to[0] = gain_total;
  if constexpr (kCentered) to[columns] = bias_total;
}

/// Sums over slices in their order: blocks (tile, 0) for dgain, (tile, 1) for dbias. The grid has one row of blocks per
/// parameter.
template <class V>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    norm_parameter_gradient_total(int slices, int columns, const V* partial, V* dgain, V* dbias, bool accumulate) {
  const int column = static_cast<int>(blockIdx.x * kTileLanes + threadIdx.x);
  const int parameters = static_cast<int>(gridDim.y);
  V sum[1] = {};
  if (column < columns) {
    const V* from = partial + static_cast<std::int64_t>(blockIdx.y) * columns + column;
#pragma unroll 4
    for (int slice = threadIdx.y; slice < slices; slice += kTileRows) {
      sum[0] += from[static_cast<std::int64_t>(slice) * parameters * columns];
    }
  }
  const V total = sum_over_tile_rows(sum);
  if (threadIdx.y != 0 || column >= columns) return;
  V* to = (blockIdx.y == 0 ? dgain : dbias) + column;
  *to = accumulate ? *to + total : total;
}

namespace {

// With kCentered the norm is layer norm. Without it, it is RMS norm.

/// The statistics of the rows, which are the operands from `first` on.
template <bool kCentered, class V>
RowStatistics<const V*> statistics(const KernelArguments& arguments, std::size_t first) {
  if constexpr (kCentered) return {in<V>(arguments, first), in<V>(arguments, first + 1)};
  return {nullptr, in<V>(arguments, first)};
}

template <bool kCentered>
struct Norm {
  template <class T>
  PreparedKernel operator()(const OpInstance& op) const {
    using V = Accumulate<T>;
    const std::int64_t width = elements(op.operands[1]);
    const std::int64_t height = elements(op.operands[0]) / width;
    const auto epsilon = static_cast<V>(op.attributes.number("epsilon"));
    return {[=](const KernelArguments& arguments) {
      const T* x = in<T>(arguments, 0);
      const V* gain = in<V>(arguments, 1);
      const V* bias = kCentered ? in<V>(arguments, 2) : nullptr;
      T* y = out<T>(arguments, 0);
      const RowStatistics<V*> results{kCentered ? out<V>(arguments, 1) : nullptr, out<V>(arguments, kCentered ? 2 : 1)};
      with_teams<T>(height, width, are_aligned(x, gain, bias, y), [&]<int kWidth, int kHeld>(const Geometry& geometry) {
        launch(norm_rows<kCentered, T, kWidth, kHeld>, geometry, arguments.stream, height, width, epsilon, x, gain,
               bias, y, results);
      });
    }};
  }
};

template <bool kCentered>
struct NormInputGradient {
  template <class T>
  PreparedKernel operator()(const OpInstance& op) const {
    using V = Accumulate<T>;
    const std::int64_t width = elements(op.operands[2]);
    const std::int64_t height = elements(op.operands[0]) / width;
    return {[=, accumulate = op.accumulate](const KernelArguments& arguments) {
      const T* dy = in<T>(arguments, 0);
      const T* x = in<T>(arguments, 1);
      const V* gain = in<V>(arguments, 2);
      T* dx = out<T>(arguments, 0);
      with_teams<T>(height, width, are_aligned(dy, x, gain, dx), [&]<int kWidth, int kHeld>(const Geometry& geometry) {
        launch(norm_input_gradient_rows<kCentered, T, kWidth, kHeld>, geometry, arguments.stream, height, width, dy, x,
               gain, statistics<kCentered, V>(arguments, 3), dx, accumulate);
      });
    }};
  }
};

template <bool kCentered>
struct NormParameterGradient {
  template <class T>
  PreparedKernel operator()(const OpInstance& op, const CudaEnvironment& environment) const {
    using V = Accumulate<T>;
    const std::int64_t width = elements(op.results[0]);
    const std::int64_t height = elements(op.operands[0]) / width;
    const Slices slices = slices_of<T>(height, width, environment);
    constexpr unsigned kParameters = kNormParameters<kCentered>;
    WorkspacePlan workspace;
    const std::int64_t at =
        workspace.reserve(slices.count * kParameters * width * static_cast<std::int64_t>(sizeof(V)));
    const auto launch_both = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
      const T* dy = in<T>(arguments, 0);
      const T* x = in<T>(arguments, 1);
      V* partial = workspace_at<V>(arguments, at);
      const auto launch_slices = [&]<int kWidth>() {
        const Geometry geometry{.grid = {blocks_for(width, kTileColumns<kWidth>), static_cast<unsigned>(slices.count)},
                                .block = {kTileLanes, kTileRows}};
        launch(norm_parameter_gradient_slices<kCentered, T, kWidth>, geometry, arguments.stream, height, width,
               slices.rows, dy, x, statistics<kCentered, V>(arguments, 2), partial);
      };
      const bool packed = width % kPackedElements<T> == 0 && are_aligned(dy, x);
      packed ? launch_slices.template operator()<kPackedElements<T>>() : launch_slices.template operator()<1>();
      launch(norm_parameter_gradient_total<V>,
             {.grid = {blocks_for(width, kTileLanes), kParameters}, .block = {kTileLanes, kTileRows}}, arguments.stream,
             slices.count, width, partial, out<V>(arguments, 0), kCentered ? out<V>(arguments, 1) : nullptr,
             accumulate);
    };
    return {launch_both, workspace.bytes()};
  }
};

}  // namespace

void register_norm(Registration& registration) {
  add(registration, {"layer_norm", "tff", "tff"}, Norm<true>{});
  add(registration, {"layer_norm_input_gradient", "ttfff", "t", true}, NormInputGradient<true>{});
  add(registration, {"layer_norm_parameter_gradient", "ttff", "ff", true}, NormParameterGradient<true>{});
  add(registration, {"rms_norm", "tf", "tf"}, Norm<false>{});
  add(registration, {"rms_norm_input_gradient", "ttff", "t", true}, NormInputGradient<false>{});
  add(registration, {"rms_norm_parameter_gradient", "ttf", "f", true}, NormParameterGradient<false>{});
}

}  // namespace strata::cuda
