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

  [[nodiscard]] __device__ __forceinline__ std::int64_t element(std::int64_t i, std::int64_t channel) const {
    return (i / inner * channels + channel) * inner + i % inner;
  }
  [[nodiscard]] __device__ __forceinline__ std::int64_t channel(std::int64_t element) const {
    return element / inner % channels;
  }
};

/// The sum of term(element) over the elements of the block's channel.
template <class V, class Term>
__device__ __forceinline__ V channel_sum(const ChannelShape& shape, const Term& term) {
  V sum = 0;
  for (std::int64_t i = threadIdx.x; i < shape.outer * shape.inner; i += kChannelThreads) {
    sum += term(shape.element(i, blockIdx.x));
  }
  return block_sum(sum);
}

template <class V>
__device__ __forceinline__ void store_statistic(V& to, V value, bool accumulate) {
  if (threadIdx.x == 0) to = accumulate ? to + value : value;
}

/// The mean of x for each channel, or with `means` the mean of (x - mean)².
template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    channel_statistic(ChannelShape shape, double part, const T* x, const Accumulate<T>* means, Accumulate<T>* result,
                      bool accumulate) {
  using V = Accumulate<T>;
  const V sum = channel_sum<V>(shape, [&](std::int64_t i) {
    const V value = widen(x[i]);
    if (means == nullptr) return value;
    const V difference = value - means[blockIdx.x];
    return difference * difference;
  });
  store_statistic(result[blockIdx.x], sum * static_cast<V>(part), accumulate);
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

template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    channel_gradient_sums(ChannelShape shape, ChannelValues<Accumulate<T>> values, const T* dy, const T* x,
                          Accumulate<T>* sums, Accumulate<T>* products, bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t c = blockIdx.x;
  const V sum = channel_sum<V>(shape, [&](std::int64_t i) { return static_cast<V>(widen(dy[i])); });
  const V product =
      channel_sum<V>(shape, [&](std::int64_t i) { return widen(dy[i]) * (widen(x[i]) - values.mean[c]); });
  store_statistic(sums[c], sum, accumulate);
  store_statistic(products[c], product * values.scale(c), accumulate);
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

Geometry block_of_channels(const ChannelShape& shape) {
  return {{static_cast<unsigned>(shape.channels)}, {kChannelThreads}};
}

Geometry thread_of_elements(std::int64_t count) { return {{blocks_for(count, kChannelThreads)}, {kChannelThreads}}; }

template <bool kVariance>
PreparedKernel prepare_statistic(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const Dim channels = kVariance ? op.operands.back().dims[0] : Dim(op.attributes.word("channels"));
    return {[shape = channel_shape(op.operands[0], channels), part = 1 / op.attributes.number("count"),
             accumulate = op.accumulate](const KernelArguments& arguments) {
      const V* means = nullptr;
      if constexpr (kVariance) means = in<V>(arguments, 1);
      launch(channel_statistic<T>, block_of_channels(shape), arguments.stream, shape, part, in<T>(arguments, 0), means,
             out<V>(arguments, 0), accumulate);
    }};
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
    return {[shape = channel_shape(op.operands[0], op.operands[2].dims[0]), epsilon = op.attributes.number("epsilon"),
             accumulate = op.accumulate](const KernelArguments& arguments) {
      const ChannelValues<V> values{nullptr, nullptr, in<V>(arguments, 2), in<V>(arguments, 3), epsilon};
      launch(channel_gradient_sums<T>, block_of_channels(shape), arguments.stream, shape, values, in<T>(arguments, 0),
             in<T>(arguments, 1), out<V>(arguments, 0), out<V>(arguments, 1), accumulate);
    }};
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
