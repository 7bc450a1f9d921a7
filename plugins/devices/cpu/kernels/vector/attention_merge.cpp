#include "kernels/attention.hpp"
#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// The weight of each of the two outputs, and the log-sum-exp of both.
struct Weights {
  float first = 0.0F;
  float second = 0.0F;
  float log_sum = -kInfinity;
};

Weights weights(float first, float second) {
  const float largest = first > second ? first : second;
  if (largest == -kInfinity) return {};
  const float a = __builtin_expf(first - largest);
  const float b = __builtin_expf(second - largest);
  return {a / (a + b), b / (a + b), largest + __builtin_logf(a + b)};
}

void merge(const AttentionOutputShape& shape, const float* o1, const float* l1, const float* o2, const float* l2,
           float* o, float* l, int threads) {
  const std::int64_t width = shape.head_dim;
  parallel_rows(threads, shape.batch * shape.sequence, shape.heads * width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t batch = token / shape.sequence;
      const std::int64_t query = token % shape.sequence;
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::int64_t row = (batch * shape.heads + head) * shape.sequence + query;
        const std::int64_t at = (token * shape.heads + head) * width;
        const Weights of = weights(l1[row], l2[row]);
        map_range(0, width, o1 + at, o2 + at, o + at, [of](Float a, Float b) { return of.first * a + of.second * b; });
        l[row] = of.log_sum;
      }
    }
  });
}

}  // namespace

const AttentionMergeKernels attention_merge_kernels = {merge};

}  // namespace strata::cpu::STRATA_CPU_TARGET
