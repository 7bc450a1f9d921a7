#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "language/language.hpp"
#include "language/launch.hpp"

namespace strata::cuda {

inline constexpr int kChannelThreads = 256;

/// Where the elements of a channel are: x is [outer, channels, inner].
struct ChannelShape {
  std::int64_t outer;
  std::int64_t channels;
  std::int64_t inner;

  [[nodiscard]] __device__ __forceinline__ std::int64_t channel(std::int64_t element) const {
    return element / inner % channels;
  }
};

/// Calls use(element) for the elements of a channel in one of `pieces` parts of the outer dim: a block has a channel
/// and a part. The sizes of a step replace a division for each element.
template <class Use>
__device__ __forceinline__ void for_each_in_piece(const ChannelShape& shape, std::int64_t pieces, const Use& use) {
  const std::int64_t end = shape.outer * (blockIdx.y + 1) / pieces;
  const std::int64_t outer_step = kChannelThreads / shape.inner;
  const std::int64_t inner_step = kChannelThreads % shape.inner;
  std::int64_t outer = shape.outer * blockIdx.y / pieces + threadIdx.x / shape.inner;
  std::int64_t inner = threadIdx.x % shape.inner;
  while (outer < end) {
    use((outer * shape.channels + blockIdx.x) * shape.inner + inner);
    outer += outer_step;
    inner += inner_step;
    if (inner < shape.inner) continue;
    inner -= shape.inner;
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
template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    sum_pieces(ChannelShape shape, std::int64_t pieces, const T* x, const Accumulate<T>* means, Accumulate<T>* sums) {
  using V = Accumulate<T>;
  const V mean = means == nullptr ? V{0} : means[blockIdx.x];
  V sum = 0;
  for_each_in_piece(shape, pieces, [&](std::int64_t i) {
    const V difference = widen(x[i]) - mean;
    sum += means == nullptr ? difference : difference * difference;
  });
  store_piece(sums, sum);
}

/// The sum over the pieces of a channel, in their order, by one thread.
template <class V>
__device__ __forceinline__ V sum_of_pieces(const V* sums, std::int64_t pieces, std::int64_t channels,
                                           std::int64_t channel) {
  V sum = 0;
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

template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    normalize_channels(ChannelShape shape, std::int64_t count, ChannelValues<Accumulate<T>> values, const T* x, T* y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kChannelThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t c = shape.channel(i);
  y[i] = narrow<T>((widen(x[i]) - values.mean[c]) * values.scale(c) * values.gain[c] + values.bias[c]);
}

/// The sums of dy, and behind them those of dy · (x - mean).
template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    sum_gradient_pieces(ChannelShape shape, std::int64_t pieces, const Accumulate<T>* means, const T* dy, const T* x,
                        Accumulate<T>* sums) {
  using V = Accumulate<T>;
  V sum = 0;
  V product = 0;
  for_each_in_piece(shape, pieces, [&](std::int64_t i) {
    const V gradient = widen(dy[i]);
    sum += gradient;
    product += gradient * (widen(x[i]) - means[blockIdx.x]);
  });
  store_piece(sums, sum);
  store_piece(sums + pieces * shape.channels, product);
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

template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    channel_input_gradient(ChannelShape shape, std::int64_t count, ChannelValues<Accumulate<T>> values, double part,
                           const T* dy, const T* x, const Accumulate<T>* sums, const Accumulate<T>* products, T* dx,
                           bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t i = std::int64_t{blockIdx.x} * kChannelThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t c = shape.channel(i);
  const V scale = values.scale(c);
  const V sum = sums[c] * static_cast<V>(part);
  const V product = products[c] * static_cast<V>(part) * scale;
  V gradient = values.gain[c] * scale * (widen(dy[i]) - sum - (widen(x[i]) - values.mean[c]) * product);
  if (accumulate) gradient += widen(dx[i]);
  dx[i] = narrow<T>(gradient);
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
constexpr std::int64_t kPieceElements = 512;
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

Geometry thread_of_elements(std::int64_t count) { return {{blocks_for(count, kChannelThreads)}, {kChannelThreads}}; }

template <bool kVariance>
PreparedKernel prepare_statistic(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const Dim channels = kVariance ? op.operands.back().dims[0] : Dim(op.attributes.word("channels"));
    const ChannelShape shape = channel_shape(op.operands[0], channels);
    return {[shape, part = 1 / op.attributes.number("count"),
             accumulate = op.accumulate](const KernelArguments& arguments) {
              const V* means = nullptr;
              if constexpr (kVariance) means = in<V>(arguments, 1);
              V* sums = workspace_at<V>(arguments, 0);
              const std::int64_t pieces = pieces_of(shape);
              launch(sum_pieces<T>, blocks_of_pieces(shape), arguments.stream, shape, pieces, in<T>(arguments, 0),
                     means, sums);
              launch(store_statistic<V>, thread_of_elements(shape.channels), arguments.stream, shape.channels, pieces,
                     part, sums, out<V>(arguments, 0), accumulate);
            },
            piece_bytes<V>(shape, 1)};
  });
}

PreparedKernel prepare_batch_normalize(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    return {[shape = channel_shape(op.operands[0], op.operands[1].dims[0]), count = elements(op.operands[0]),
             epsilon = op.attributes.number("epsilon")](const KernelArguments& arguments) {
      const ChannelValues<V> values{in<V>(arguments, 1), in<V>(arguments, 2), in<V>(arguments, 3), in<V>(arguments, 4),
                                    epsilon};
      launch(normalize_channels<T>, thread_of_elements(count), arguments.stream, shape, count, values,
             in<T>(arguments, 0), out<T>(arguments, 0));
    }};
  });
}

PreparedKernel prepare_batch_norm_sums(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const ChannelShape shape = channel_shape(op.operands[0], op.operands[2].dims[0]);
    return {[shape, epsilon = op.attributes.number("epsilon"),
             accumulate = op.accumulate](const KernelArguments& arguments) {
              const ChannelValues<V> values{nullptr, nullptr, in<V>(arguments, 2), in<V>(arguments, 3), epsilon};
              V* sums = workspace_at<V>(arguments, 0);
              const std::int64_t pieces = pieces_of(shape);
              launch(sum_gradient_pieces<T>, blocks_of_pieces(shape), arguments.stream, shape, pieces, values.mean,
                     in<T>(arguments, 0), in<T>(arguments, 1), sums);
              launch(store_gradient_sums<V>, thread_of_elements(shape.channels), arguments.stream, shape.channels,
                     pieces, values, sums, out<V>(arguments, 0), out<V>(arguments, 1), accumulate);
            },
            piece_bytes<V>(shape, 2)};
  });
}

PreparedKernel prepare_batch_norm_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    return {[shape = channel_shape(op.operands[0], op.operands[2].dims[0]), count = elements(op.operands[0]),
             epsilon = op.attributes.number("epsilon"), part = 1 / op.attributes.number("count"),
             accumulate = op.accumulate](const KernelArguments& arguments) {
      const ChannelValues<V> values{in<V>(arguments, 2), nullptr, in<V>(arguments, 3), in<V>(arguments, 4), epsilon};
      launch(channel_input_gradient<T>, thread_of_elements(count), arguments.stream, shape, count, values, part,
             in<T>(arguments, 0), in<T>(arguments, 1), in<V>(arguments, 5), in<V>(arguments, 6), out<T>(arguments, 0),
             accumulate);
    }};
  });
}

PreparedKernel prepare_change(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    return {[count = elements(op.results[0]), factor = op.attributes.number("factor"),
             momentum = op.attributes.number("momentum"),
             accumulate = op.accumulate](const KernelArguments& arguments) {
      launch(statistic_change<V>, thread_of_elements(count), arguments.stream, count, factor, momentum,
             in<V>(arguments, 0), in<V>(arguments, 1), out<V>(arguments, 0), accumulate);
    }};
  });
}

}  // namespace

void register_batch_norm(Registration& registration) {
  registration.add(kernel({"batch_mean", "t", "f", prepare_statistic<false>, true}));
  registration.add(kernel({"batch_variance", "tf", "f", prepare_statistic<true>, true}));
  registration.add(kernel({"batch_normalize", "tffff", "t", prepare_batch_normalize}));
  registration.add(kernel({"batch_norm_sums", "ttff", "ff", prepare_batch_norm_sums, true}));
  registration.add(kernel({"batch_norm_input_gradient", "ttfffff", "t", prepare_batch_norm_gradient, true}));
  registration.add(kernel({"statistic_change", "ff", "f", prepare_change, true}));
}

}  // namespace strata::cuda
