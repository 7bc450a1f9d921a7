#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "launchers/call.hpp"

namespace strata::cuda {

inline constexpr int kChannelThreads = 256;

/// Where the elements of a channel are: x is [outer, channels, inner].
struct ChannelShape {
  std::int64_t outer;
  std::int64_t channels;
  std::int64_t inner;
};

/// Calls use(first) for the runs of kRun elements of a channel in one of gridDim.y parts of the outer dim: a block has
/// a channel and a part. The sizes of a step replace a division for each run.
template <int kRun, class Use>
__device__ __forceinline__ void for_each_in_piece(const ChannelShape& shape, const Use& use) {
  const std::int64_t runs = shape.inner / kRun;
  const std::int64_t end = shape.outer * (blockIdx.y + 1) / gridDim.y;
  const std::int64_t outer_step = kChannelThreads / runs;
  const std::int64_t run_step = kChannelThreads % runs;
  std::int64_t outer = shape.outer * blockIdx.y / gridDim.y + threadIdx.x / runs;
  std::int64_t run = threadIdx.x % runs;
  while (outer < end) {
    use((outer * shape.channels + blockIdx.x) * shape.inner + run * kRun);
    outer += outer_step;
    run += run_step;
    if (run < runs) continue;
    run -= runs;
    ++outer;
  }
}

/// Sums of pieces are [sums, pieces, channels].
template <class V>
__device__ __forceinline__ void store_piece(V* sums, V sum) {
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/// The sum of x for each channel, or with `means` the sum of (x - mean)².
template <class T, int kRun>
__global__ void __launch_bounds__(kChannelThreads)
    sum_pieces(ChannelShape shape, const T* x, const Accumulate<T>* means, Accumulate<T>* sums) {
  using V = Accumulate<T>;
  const V mean = means == nullptr ? V{0} : means[blockIdx.x];
  V sum = 0;
  for_each_in_piece<kRun>(shape, [&](std::int64_t first) {
    V values[kRun];
    load_run(x + first, values);
#pragma unroll
    for (const V value : values) sum += means == nullptr ? value : (value - mean) * (value - mean);
  });
  store_piece(sums, sum);
}

/// The sum over the pieces of a channel, in their order, by one thread.
template <class V>
__device__ __forceinline__ V sum_of_pieces(const V* sums, std::int64_t pieces, std::int64_t channels,
                                           std::int64_t channel) {
  V sum = 0;
#pragma unroll 8
  for (std::int64_t piece = 0; piece < pieces; ++piece) sum += sums[piece * channels + channel];
  return sum;
}

/// result = part · the sums
template <class V>
__global__ void __launch_bounds__(kChannelThreads)
    store_statistic(std::int64_t channels, std::int64_t pieces, double part, const V* sums, V* result,
                    bool accumulate) {
  const std::int64_t c = std::int64_t{blockIdx.x} * kChannelThreads + threadIdx.x;
  if (c >= channels) return;
  const V value = sum_of_pieces(sums, pieces, channels, c) * static_cast<V>(part);
  result[c] = accumulate ? result[c] + value : value;
}

/// The statistics of one channel.
template <class V>
struct ChannelValues {
  const V* gain;
  const V* bias;
  const V* mean;
  const V* variance;
  double epsilon;

  [[nodiscard]] __device__ __forceinline__ V scale(std::int64_t channel) const {
    return V{1} / std::sqrt(variance[channel] + static_cast<V>(epsilon));
  }
};

template <class T, int kRun>
__global__ void __launch_bounds__(kChannelThreads)
    normalize_channels(ChannelShape shape, ChannelValues<Accumulate<T>> values, const T* x, T* y) {
  using V = Accumulate<T>;
  const std::int64_t c = blockIdx.x;
  const V mean = values.mean[c];
  const V scale = values.scale(c);
  const V gain = values.gain[c];
  const V bias = values.bias[c];
  for_each_in_piece<kRun>(shape, [&](std::int64_t first) {
    V run[kRun];
    load_run(x + first, run);
#pragma unroll
    for (V& value : run) value = (value - mean) * scale * gain + bias;
    store_run(y + first, run);
  });
}

/// The sums of dy, and behind them those of dy · (x - mean).
template <class T, int kRun>
__global__ void __launch_bounds__(kChannelThreads)
    sum_gradient_pieces(ChannelShape shape, const Accumulate<T>* means, const T* dy, const T* x, Accumulate<T>* sums) {
  using V = Accumulate<T>;
  const V mean = means[blockIdx.x];
  V sum = 0;
  V product = 0;
  for_each_in_piece<kRun>(shape, [&](std::int64_t first) {
    V gradients[kRun];
    V values[kRun];
    load_run(dy + first, gradients);
    load_run(x + first, values);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      sum += gradients[i];
      product += gradients[i] * (values[i] - mean);
    }
  });
  store_piece(sums, sum);
  store_piece(sums + gridDim.y * shape.channels, product);
}

template <class V>
__global__ void __launch_bounds__(kChannelThreads)
    store_gradient_sums(std::int64_t channels, std::int64_t pieces, ChannelValues<V> values, const V* sums, V* to_sums,
                        V* to_products, bool accumulate) {
  const std::int64_t c = std::int64_t{blockIdx.x} * kChannelThreads + threadIdx.x;
  if (c >= channels) return;
  const V sum = sum_of_pieces(sums, pieces, channels, c);
  const V product = sum_of_pieces(sums + pieces * channels, pieces, channels, c) * values.scale(c);
  to_sums[c] = accumulate ? to_sums[c] + sum : sum;
  to_products[c] = accumulate ? to_products[c] + product : product;
}

template <class T, int kRun>
__global__ void __launch_bounds__(kChannelThreads)
    channel_input_gradient(ChannelShape shape, ChannelValues<Accumulate<T>> values, double part, const T* dy,
                           const T* x, const Accumulate<T>* sums, const Accumulate<T>* products, T* dx,
                           bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t c = blockIdx.x;
  const V mean = values.mean[c];
  const V scale = values.scale(c);
  const V factor = values.gain[c] * scale;
  const V sum = sums[c] * static_cast<V>(part);
  const V product = products[c] * static_cast<V>(part) * scale;
  for_each_in_piece<kRun>(shape, [&](std::int64_t first) {
    V gradients[kRun];
    V run[kRun];
    V before[kRun] = {};
    load_run(dy + first, gradients);
    load_run(x + first, run);
    if (accumulate) load_run(dx + first, before);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      run[i] = factor * (gradients[i] - sum - (run[i] - mean) * product) + before[i];
    }
    store_run(dx + first, run);
  });
}

template <class V>
__global__ void __launch_bounds__(kChannelThreads)
    statistic_change(std::int64_t count, double factor, double momentum, const V* statistic, const V* average,
                     V* change, bool accumulate) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kChannelThreads + threadIdx.x;
  if (i >= count) return;
  const V value = static_cast<V>(factor) * statistic[i] - static_cast<V>(momentum) * average[i];
  change[i] = accumulate ? change[i] + value : value;
}

namespace {

ChannelShape channel_shape(const OperandDescription& x, const Dim& dim) {
  ChannelShape shape{1, 1, 1};
  const auto at = static_cast<std::size_t>(find_dim(x.dims, dim));
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    (i < at ? shape.outer : i == at ? shape.channels : shape.inner) *= x.shape[i];
  }
  return shape;
}

/// Parts of the outer dim with about kPieceElements elements of a channel each, so that few channels also keep a GPU
/// busy.
constexpr std::int64_t kPieceElements = 4096;
constexpr std::int64_t kMostPieces = 64;

std::int64_t pieces_of(const ChannelShape& shape) {
  return std::clamp(std::min(shape.outer, shape.outer * shape.inner / kPieceElements), std::int64_t{1}, kMostPieces);
}

template <class V>
std::int64_t piece_bytes(const ChannelShape& shape, std::int64_t sums) {
  return sums * pieces_of(shape) * shape.channels * static_cast<std::int64_t>(sizeof(V));
}

Geometry blocks_of_pieces(const ChannelShape& shape) {
  return {{static_cast<unsigned>(shape.channels), static_cast<unsigned>(pieces_of(shape))}, {kChannelThreads}};
}

/// Calls function.operator()<kRun>() with the length of the runs in which a channel can be read.
template <class T, class Function>
void with_run(const ChannelShape& shape, bool is_aligned, const Function& function) {
  constexpr int kRun = kPackedElements<T>;
  if (is_aligned && shape.inner % kRun == 0) return function.template operator()<kRun>();
  function.template operator()<1>();
}

Geometry thread_of_elements(std::int64_t count) { return {{blocks_for(count, kChannelThreads)}, {kChannelThreads}}; }

template <bool kVariance>
struct Statistic {
  template <class T>
  PreparedKernel operator()(const OpInstance& op) const {
    using V = Accumulate<T>;
    const Dim channels = kVariance ? op.operands.back().dims[0] : Dim(op.attributes.word("channels"));
    const ChannelShape shape = channel_shape(op.operands[0], channels);
    return {[shape, part = 1 / op.attributes.number("count"),
             accumulate = op.accumulate](const KernelArguments& arguments) {
              const V* means = nullptr;
              if constexpr (kVariance) means = in<V>(arguments, 1);
              V* sums = workspace_at<V>(arguments, 0);
              const T* x = in<T>(arguments, 0);
              with_run<T>(shape, is_aligned(x), [&]<int kRun>() {
                launch(sum_pieces<T, kRun>, blocks_of_pieces(shape), arguments.stream, shape, x, means, sums);
              });
              launch(store_statistic<V>, thread_of_elements(shape.channels), arguments.stream, shape.channels,
                     pieces_of(shape), part, sums, out<V>(arguments, 0), accumulate);
            },
            piece_bytes<V>(shape, 1)};
  }
};

constexpr auto kBatchNormalize = []<class T>(const OpInstance& op) -> PreparedKernel {
  using V = Accumulate<T>;
  return {[shape = channel_shape(op.operands[0], op.operands[1].dims[0]),
           epsilon = op.attributes.number("epsilon")](const KernelArguments& arguments) {
    const ChannelValues<V> values{in<V>(arguments, 1), in<V>(arguments, 2), in<V>(arguments, 3), in<V>(arguments, 4),
                                  epsilon};
    const T* x = in<T>(arguments, 0);
    T* y = out<T>(arguments, 0);
    with_run<T>(shape, are_aligned(x, y), [&]<int kRun>() {
      launch(normalize_channels<T, kRun>, blocks_of_pieces(shape), arguments.stream, shape, values, x, y);
    });
  }};
};

constexpr auto kBatchNormSums = []<class T>(const OpInstance& op) -> PreparedKernel {
  using V = Accumulate<T>;
  const ChannelShape shape = channel_shape(op.operands[0], op.operands[2].dims[0]);
  return {
      [shape, epsilon = op.attributes.number("epsilon"), accumulate = op.accumulate](const KernelArguments& arguments) {
        const ChannelValues<V> values{nullptr, nullptr, in<V>(arguments, 2), in<V>(arguments, 3), epsilon};
        V* sums = workspace_at<V>(arguments, 0);
        const T* dy = in<T>(arguments, 0);
        const T* x = in<T>(arguments, 1);
        with_run<T>(shape, are_aligned(dy, x), [&]<int kRun>() {
          launch(sum_gradient_pieces<T, kRun>, blocks_of_pieces(shape), arguments.stream, shape, values.mean, dy, x,
                 sums);
        });
        launch(store_gradient_sums<V>, thread_of_elements(shape.channels), arguments.stream, shape.channels,
               pieces_of(shape), values, sums, out<V>(arguments, 0), out<V>(arguments, 1), accumulate);
      },
      piece_bytes<V>(shape, 2)};
};

constexpr auto kBatchNormGradient = []<class T>(const OpInstance& op) -> PreparedKernel {
  using V = Accumulate<T>;
  return {[shape = channel_shape(op.operands[0], op.operands[2].dims[0]), epsilon = op.attributes.number("epsilon"),
           part = 1 / op.attributes.number("count"), accumulate = op.accumulate](const KernelArguments& arguments) {
    const ChannelValues<V> values{in<V>(arguments, 2), nullptr, in<V>(arguments, 3), in<V>(arguments, 4), epsilon};
    const T* dy = in<T>(arguments, 0);
    const T* x = in<T>(arguments, 1);
    T* dx = out<T>(arguments, 0);
    with_run<T>(shape, are_aligned(dy, x, dx), [&]<int kRun>() {
      launch(channel_input_gradient<T, kRun>, blocks_of_pieces(shape), arguments.stream, shape, values, part, dy, x,
             in<V>(arguments, 5), in<V>(arguments, 6), dx, accumulate);
    });
  }};
};

}  // namespace

void register_batch_norm(Registration& registration) {
  add(registration, {"batch_mean", "t", "f", true}, Statistic<false>{});
  add(registration, {"batch_variance", "tf", "f", true}, Statistic<true>{});
  add(registration, {"batch_normalize", "tffff", "t"}, kBatchNormalize);
  add(registration, {"batch_norm_sums", "ttff", "ff", true}, kBatchNormSums);
  add(registration, {"batch_norm_input_gradient", "ttfffff", "t", true}, kBatchNormGradient);
  add(registration, {"statistic_change", "ff", "f", true}, []<class T>(const OpInstance& op) {
    using V = Accumulate<T>;
    const std::int64_t count = elements(op.results[0]);
    return call(statistic_change<V>, thread_of_elements(count), count, op.attributes.number("factor"),
                op.attributes.number("momentum"), Operand<V>{0}, Operand<V>{1}, Result<V>{0}, op.accumulate);
  });
}

}  // namespace strata::cuda
