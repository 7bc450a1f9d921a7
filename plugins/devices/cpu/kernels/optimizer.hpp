#pragma once

#include <cstdint>

namespace strata::cpu {

/// A run of a flat bucket whose elements share a weight decay; segments are in ascending order and cover the bucket.
struct DecaySegment {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  float weight_decay = 0.0F;
};

struct AdamWStep {
  float learning_rate = 0.0F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float correction1 = 1.0F;  ///< 1 - beta1^step
  float correction2 = 1.0F;  ///< 1 - beta2^step
  float gradient_scale = 1.0F;
};

struct SgdStep {
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float gradient_scale = 1.0F;
};

/// Updates of a flat bucket in place. A null momentum buffer is allowed where momentum is 0.
struct OptimizerKernels {
  void (*adamw)(const AdamWStep& step, const DecaySegment* segments, int segment_count, float* parameter,
                const float* gradient, float* first_moment, float* second_moment, int threads);
  void (*sgd)(const SgdStep& step, const DecaySegment* segments, int segment_count, float* parameter,
              const float* gradient, float* momentum_buffer, int threads);
};

}  // namespace strata::cpu
