#include <algorithm>
#include <cmath>
#include <vector>

#include "index_map.hpp"
#include "ops/operations.hpp"

namespace strata::cpu {
namespace {

/// The shard of a bucket, cut where weight decay ends: the first `decay_elements` of the whole bucket have it.
std::vector<DecaySegment> decay_segments(const OpInstance& op) {
  const auto weight_decay = static_cast<float>(op.attributes.number("weight_decay"));
  const std::int64_t decay_elements = op.attributes.integer("decay_elements");
  std::vector<DecaySegment> segments;
  for (const strata::IndexSegment& segment : index_map(op, op.operands[0].dims[0]).segments) {
    const std::int64_t decayed = std::clamp(decay_elements - segment.global_begin, std::int64_t{0}, segment.length);
    if (decayed > 0) segments.push_back({segment.local_begin, decayed, weight_decay});
    if (decayed < segment.length) segments.push_back({segment.local_begin + decayed, segment.length - decayed, 0.0F});
  }
  return segments;
}

}  // namespace

/// norm = √(sum of squares) / count; scale = min(1, clip / (norm + 1e-6)) / count. Without a single target both are 0.
ComputeKernel prepare_gradient_scale(const OpInstance& op, const Environment& /*environment*/) {
  return {[clip = op.attributes.number("clip")](const KernelArguments& arguments) {
    const double count = f64(arguments, 1);
    const double norm = count > 0.0 ? std::sqrt(f64(arguments, 0)) / count : 0.0;
    const double factor = clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    f64_result(arguments, 0) = count > 0.0 ? factor / count : 0.0;
    f64_result(arguments, 1) = norm;
  }};
}

ComputeKernel prepare_adamw_update(const OpInstance& op, const Environment& environment) {
  const auto adamw = environment.library->optimizer.adamw;
  const std::vector<DecaySegment> segments = decay_segments(op);
  const double beta1 = op.attributes.number("beta1");
  const double beta2 = op.attributes.number("beta2");
  const double epsilon = op.attributes.number("epsilon");
  return {[=, threads = environment.threads](const KernelArguments& arguments) {
    const auto t = static_cast<double>(arguments.context.step + 1);
    AdamWStep step;
    step.learning_rate = static_cast<float>(arguments.context.learning_rate);
    step.beta1 = static_cast<float>(beta1);
    step.beta2 = static_cast<float>(beta2);
    step.epsilon = static_cast<float>(epsilon);
    step.correction1 = static_cast<float>(1.0 - std::pow(beta1, t));
    step.correction2 = static_cast<float>(1.0 - std::pow(beta2, t));
    step.gradient_scale = static_cast<float>(f64(arguments, 1));
    adamw(step, segments.data(), static_cast<int>(segments.size()), f32_result(arguments, 0), f32(arguments, 0),
          f32_result(arguments, 1), f32_result(arguments, 2), threads);
  }};
}

ComputeKernel prepare_sgd_update(const OpInstance& op, const Environment& environment) {
  const auto sgd = environment.library->optimizer.sgd;
  const std::vector<DecaySegment> segments = decay_segments(op);
  const auto momentum = static_cast<float>(op.attributes.number("momentum"));
  return {[=, threads = environment.threads](const KernelArguments& arguments) {
    SgdStep step;
    step.learning_rate = static_cast<float>(arguments.context.learning_rate);
    step.momentum = momentum;
    step.gradient_scale = static_cast<float>(f64(arguments, 1));
    sgd(step, segments.data(), static_cast<int>(segments.size()), f32_result(arguments, 0), f32(arguments, 0),
        f32_result(arguments, 1), threads);
  }};
}

}  // namespace strata::cpu
