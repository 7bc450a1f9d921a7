#pragma once

#include <cstdint>
#include <limits>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// A run of a flat bucket with one weight decay. Segments are in ascending order and cover the bucket.
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
};

struct SgdStep {
  float learning_rate = 0.0F;
  // With momentum only.
  float momentum = 0.0F;
  bool nesterov = false;
};

/// The buffers of an update of a flat bucket.
struct UpdatedBucket {
  const DecaySegment* segments = nullptr;
  int segment_count = 0;
  /// Factor of the segments' weight decay.
  float weight_decay_factor = 1.0F;
  Element gradient_type = Element::f32;
  const void* gradient = nullptr;
  /// Factor of the gradient, and the largest magnitude of the product.
  float gradient_scale = 1.0F;
  float largest_gradient = std::numeric_limits<float>::infinity();
  float* parameter = nullptr;
  /// A copy of `parameter` in a shorter type, rounded to the nearest. Null: there is no copy.
  Element rounded_type = Element::bf16;
  void* rounded = nullptr;
};

/// In-place updates of a flat bucket.
struct OptimizerKernels {
  void (*adamw)(const AdamWStep& step, const UpdatedBucket& bucket, float* first_moment, float* second_moment,
                int threads);
  void (*sgd)(const SgdStep& step, const UpdatedBucket& bucket, int threads);
  void (*sgd_momentum)(const SgdStep& step, const UpdatedBucket& bucket, float* momentum_buffer, int threads);
};

STRATA_CPU_KERNEL_FAMILY(OptimizerKernels, optimizer_kernels);

}  // namespace strata::cpu
