#include "kernels/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu_kernel.hpp"
#include "index_map.hpp"
#include "operands.hpp"
#include "shared/update_results.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::cpu {
namespace {

/// Splits the rank's piece of a bucket where weight decay ends. Weight decay applies to the first `decay_elements` of
/// the whole bucket.
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

/// The buffers of a launch in the form that kernels take.
class Bucket {
 public:
  explicit Bucket(const OpInstance& op)
      : segments_(decay_segments(op)),
        gradient_type_(element_of(op.operands[0].dtype)),
        values_type_(element_of(op.results[0].dtype)),
        results_(op, DType::f32) {}

  [[nodiscard]] UpdatedBucket at(const KernelArguments& arguments) const {
    UpdatedBucket bucket;
    bucket.segments = segments_.data();
    bucket.segment_count = static_cast<int>(segments_.size());
    bucket.gradient_type = gradient_type_;
    bucket.gradient = arguments.operands[0];
    bucket.parameter = f32_result(arguments, results_.parameter());
    bucket.rounded_type = values_type_;
    bucket.rounded = results_.has_master() ? arguments.results[0] : nullptr;
    return bucket;
  }

  [[nodiscard]] float* state(const KernelArguments& arguments, std::size_t index) const {
    return f32_result(arguments, results_.state(index));
  }

 private:
  std::vector<DecaySegment> segments_;
  Element gradient_type_;
  Element values_type_;
  devices::UpdateResults results_;
};

/// norm = √(sum of squares) / (count · loss scale); scale = min(1, clip / (norm + 1e-6)) / (count · loss scale).
/// Without targets both are 0. If the norm is not finite, the scale is not finite either, and updates change nothing.
PreparedKernel prepare_gradient_scale(const OpInstance& op, const CpuEnvironment& /*environment*/) {
  return {[clip = op.attributes.number("clip")](const KernelArguments& arguments) {
    const double count = f64(arguments, 1);
    const double divisor = count * arguments.context.loss_scale;
    const double norm = count > 0.0 ? std::sqrt(f64(arguments, 0)) / divisor : 0.0;
    const double factor = clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    const double scale = std::isfinite(norm) ? factor / divisor : std::nan("");
    f64_result(arguments, 0) = count > 0.0 ? scale : 0.0;
    f64_result(arguments, 1) = norm;
  }};
}

std::optional<std::string> unsupported_adamw_update(const OpInstance& op) {
  return devices::UpdateResults(op, DType::f32).mismatch(op, 2);
}

PreparedKernel prepare_adamw_update(const OpInstance& op, const CpuEnvironment& environment) {
  const auto adamw = optimizer_kernels(environment.instruction_set()).adamw;
  const double beta1 = op.attributes.number("beta1");
  const double beta2 = op.attributes.number("beta2");
  const double epsilon = op.attributes.number("epsilon");
  return {[=, bucket = Bucket(op), threads = environment.threads()](const KernelArguments& arguments) {
    if (!std::isfinite(f64(arguments, 1))) return;
    const auto t = static_cast<double>(arguments.context.step - arguments.context.skipped_steps + 1);
    AdamWStep step;
    step.learning_rate = static_cast<float>(arguments.context.learning_rate);
    step.beta1 = static_cast<float>(beta1);
    step.beta2 = static_cast<float>(beta2);
    step.epsilon = static_cast<float>(epsilon);
    step.correction1 = static_cast<float>(1.0 - std::pow(beta1, t));
    step.correction2 = static_cast<float>(1.0 - std::pow(beta2, t));
    step.gradient_scale = static_cast<float>(f64(arguments, 1));
    adamw(step, bucket.at(arguments), bucket.state(arguments, 0), bucket.state(arguments, 1), threads);
  }};
}

std::optional<std::string> unsupported_sgd_update(const OpInstance& op) {
  return devices::UpdateResults(op, DType::f32).mismatch(op, devices::sgd_states(op));
}

PreparedKernel prepare_sgd_update(const OpInstance& op, const CpuEnvironment& environment) {
  const auto sgd = optimizer_kernels(environment.instruction_set()).sgd;
  const auto momentum = static_cast<float>(op.attributes.number("momentum"));
  const bool has_state = devices::sgd_states(op) > 0;
  return {[=, bucket = Bucket(op), threads = environment.threads()](const KernelArguments& arguments) {
    if (!std::isfinite(f64(arguments, 1))) return;
    SgdStep step;
    step.learning_rate = static_cast<float>(arguments.context.learning_rate);
    step.momentum = momentum;
    step.gradient_scale = static_cast<float>(f64(arguments, 1));
    sgd(step, bucket.at(arguments), has_state ? bucket.state(arguments, 0) : nullptr, threads);
  }};
}

}  // namespace

void register_optimizer(Registration& registration) {
  registration.add(kernel({ops::kGradientScale, "dd", "dd", prepare_gradient_scale}));
  registration.add(kernel({"adamw_update", "rd", "rrr*", prepare_adamw_update, false, unsupported_adamw_update}));
  registration.add(kernel({"sgd_update", "rd", "r*", prepare_sgd_update, false, unsupported_sgd_update}));
}

}  // namespace strata::cpu
