#include <array>
#include <cmath>

#include "cpu_kernel.hpp"

namespace strata::cpu {
namespace {

/// Where the elements of a channel are: x is [outer, channels, inner].
struct Channels {
  Channels(const OperandDescription& x, const Dim& dim) {
    const auto at = static_cast<std::size_t>(find_dim(x.dims, dim));
    for (std::size_t i = 0; i < x.dims.size(); ++i) (i < at ? outer : i == at ? channels : inner) *= x.shape[i];
  }

  [[nodiscard]] std::int64_t first(std::int64_t run, std::int64_t channel) const {
    return (run * channels + channel) * inner;
  }
  /// Calls body(channel) for all channels, on several threads.
  template <class Body>
  void for_each(int threads, const Body& body) const {
    for_each_row(threads, channels, outer * inner, body);
  }

  std::int64_t outer = 1;
  std::int64_t channels = 1;
  std::int64_t inner = 1;
};

/// The sum of term(i) for i from 0. Independent lanes let the compiler use vectors.
template <class Term>
double sum_of(std::int64_t count, const Term& term) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[static_cast<std::size_t>(lane)] += term(i + lane);
  }
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  for (; i < count; ++i) sum += static_cast<double>(term(i));
  return sum;
}

float inverse_deviation(float variance, double epsilon) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(variance) + epsilon));
}

void store_sum(float& to, double value, bool accumulate) { to = static_cast<float>(accumulate ? to + value : value); }

constexpr auto kBatchMean = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const Channels channels(op.operands[0], op.attributes.word("channels"));
  return {[channels, count = op.attributes.number("count"), accumulate = op.accumulate,
           threads = environment.threads()](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    float* mean = out<float>(arguments, 0);
    channels.for_each(threads, [&](std::int64_t c) {
      double sum = 0;
      for (std::int64_t run = 0; run < channels.outer; ++run) {
        const T* values = x + channels.first(run, c);
        sum += sum_of(channels.inner, [&](std::int64_t i) { return widen(values[i]); });
      }
      store_sum(mean[c], sum / count, accumulate);
    });
  }};
};

constexpr auto kBatchVariance = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const Channels channels(op.operands[0], op.operands[1].dims[0]);
  return {[channels, count = op.attributes.number("count"), accumulate = op.accumulate,
           threads = environment.threads()](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    const float* means = in<float>(arguments, 1);
    float* variance = out<float>(arguments, 0);
    channels.for_each(threads, [&](std::int64_t c) {
      const float mean = means[c];
      double sum = 0;
      for (std::int64_t run = 0; run < channels.outer; ++run) {
        const T* values = x + channels.first(run, c);
        sum += sum_of(channels.inner, [&](std::int64_t i) {
          const float difference = widen(values[i]) - mean;
          return difference * difference;
        });
      }
      store_sum(variance[c], sum / count, accumulate);
    });
  }};
};

constexpr auto kBatchNormalize = []<class T>(const OpInstance& op,
                                             const CpuEnvironment& environment) -> PreparedKernel {
  const Channels channels(op.operands[0], op.operands[1].dims[0]);
  return {[channels, epsilon = op.attributes.number("epsilon"),
           threads = environment.threads()](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    T* y = out<T>(arguments, 0);
    channels.for_each(threads, [&](std::int64_t c) {
      const float scale = in<float>(arguments, 1)[c] * inverse_deviation(in<float>(arguments, 4)[c], epsilon);
      const float bias = in<float>(arguments, 2)[c];
      const float mean = in<float>(arguments, 3)[c];
      for (std::int64_t run = 0; run < channels.outer; ++run) {
        const T* from = x + channels.first(run, c);
        T* to = y + channels.first(run, c);
        for (std::int64_t i = 0; i < channels.inner; ++i) assign(to[i], (widen(from[i]) - mean) * scale + bias);
      }
    });
  }};
};

constexpr auto kBatchNormSums = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const Channels channels(op.operands[0], op.operands[2].dims[0]);
  return {[channels, epsilon = op.attributes.number("epsilon"), accumulate = op.accumulate,
           threads = environment.threads()](const KernelArguments& arguments) {
    const T* dy = in<T>(arguments, 0);
    const T* x = in<T>(arguments, 1);
    channels.for_each(threads, [&](std::int64_t c) {
      const float mean = in<float>(arguments, 2)[c];
      double sum = 0;
      double product = 0;
      for (std::int64_t run = 0; run < channels.outer; ++run) {
        const T* gradient = dy + channels.first(run, c);
        const T* values = x + channels.first(run, c);
        sum += sum_of(channels.inner, [&](std::int64_t i) { return widen(gradient[i]); });
        product +=
            sum_of(channels.inner, [&](std::int64_t i) { return widen(gradient[i]) * (widen(values[i]) - mean); });
      }
      store_sum(out<float>(arguments, 0)[c], sum, accumulate);
      const float scale = inverse_deviation(in<float>(arguments, 3)[c], epsilon);
      store_sum(out<float>(arguments, 1)[c], product * static_cast<double>(scale), accumulate);
    });
  }};
};

constexpr auto kBatchNormGradient = []<class T>(const OpInstance& op,
                                                const CpuEnvironment& environment) -> PreparedKernel {
  const Channels channels(op.operands[0], op.operands[2].dims[0]);
  return {[channels, epsilon = op.attributes.number("epsilon"),
           part = static_cast<float>(1 / op.attributes.number("count")), accumulate = op.accumulate,
           threads = environment.threads()](const KernelArguments& arguments) {
    const T* dy = in<T>(arguments, 0);
    const T* x = in<T>(arguments, 1);
    T* dx = out<T>(arguments, 0);
    channels.for_each(threads, [&](std::int64_t c) {
      const float mean = in<float>(arguments, 3)[c];
      const float scale = inverse_deviation(in<float>(arguments, 4)[c], epsilon);
      const float gain = in<float>(arguments, 2)[c] * scale;
      const float sum = in<float>(arguments, 5)[c] * part;
      const float product = in<float>(arguments, 6)[c] * part * scale;
      for (std::int64_t run = 0; run < channels.outer; ++run) {
        const std::int64_t first = channels.first(run, c);
        for (std::int64_t i = first; i < first + channels.inner; ++i) {
          store_value(dx[i], gain * (widen(dy[i]) - sum - (widen(x[i]) - mean) * product), accumulate);
        }
      }
    });
  }};
};

PreparedKernel prepare_change(const OpInstance& op) {
  return {[count = elements(op.results[0]), factor = static_cast<float>(op.attributes.number("factor")),
           momentum = static_cast<float>(op.attributes.number("momentum")),
           accumulate = op.accumulate](const KernelArguments& arguments) {
    const float* statistic = in<float>(arguments, 0);
    const float* average = in<float>(arguments, 1);
    float* change = out<float>(arguments, 0);
    for (std::int64_t i = 0; i < count; ++i) {
      store_sum(change[i], static_cast<double>(factor * statistic[i] - momentum * average[i]), accumulate);
    }
  }};
}

}  // namespace

void register_batch_norm(Registration& registration) {
  add(registration, {"batch_mean", "t", "f", true}, kBatchMean);
  add(registration, {"batch_variance", "tf", "f", true}, kBatchVariance);
  add(registration, {"batch_normalize", "tffff", "t"}, kBatchNormalize);
  add(registration, {"batch_norm_sums", "ttff", "ff", true}, kBatchNormSums);
  add(registration, {"batch_norm_input_gradient", "ttfffff", "t", true}, kBatchNormGradient);
  add(registration, {"statistic_change", "ff", "f", true}, prepare_change);
}

}  // namespace strata::cpu
