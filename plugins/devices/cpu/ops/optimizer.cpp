#include "kernels/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu_kernel.hpp"
#include "index_map.hpp"
#include "operands.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/update_kernel.hpp"

namespace strata::cpu {
namespace {

std::vector<DecaySegment> segments_of(const OpInstance& op) {
  std::vector<DecaySegment> segments;
  for (const strata::DecaySegment& each : decay_segments(op)) {
    segments.push_back({each.begin, each.length, static_cast<float>(each.weight_decay)});
  }
  return segments;
}

/// The buffers of a launch in the form that kernels take.
class Bucket {
 public:
  explicit Bucket(const OpInstance& op)
      : segments_(segments_of(op)),
        gradient_type_(element_of(op.operands[0].dtype)),
        values_type_(element_of(op.results[0].dtype)),
        largest_gradient_(static_cast<float>(largest_gradient(op))),
        is_direction_(takes_direction(op)),
        results_(op, DType::f32) {}

  [[nodiscard]] UpdatedBucket at(const KernelArguments& arguments) const {
    UpdatedBucket bucket;
    bucket.segments = segments_.data();
    bucket.segment_count = static_cast<int>(segments_.size());
    bucket.weight_decay_factor = static_cast<float>(arguments.context.weight_decay_factor);
    bucket.gradient_type = gradient_type_;
    bucket.gradient = arguments.operands[0];
    bucket.gradient_scale = is_direction_ ? 1.0F : static_cast<float>(f64(arguments, 1));
    bucket.largest_gradient = largest_gradient_;
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
  float largest_gradient_;
  bool is_direction_;
  UpdateResults results_;
};

/// norm = √(sum of squares) / (count · loss scale); scale = min(1, clip / (norm + 1e-6)) / (count · loss scale).
/// If the norm is not finite, the scale is not finite either, and updates change nothing. Without targets the norm is
/// 0, and the scale 0 or, if such a step is to be skipped, NaN.
PreparedKernel prepare_gradient_scale(const OpInstance& op, const CpuEnvironment& /*environment*/) {
  const double empty = op.attributes.has("skips_empty") ? std::nan("") : 0.0;
  return {[clip = op.attributes.number("clip"), empty](const KernelArguments& arguments) {
    const double count = f64(arguments, 1);
    const double divisor = count * arguments.context.loss_scale;
    const double norm = count > 0.0 ? std::sqrt(f64(arguments, 0)) / divisor : 0.0;
    const double factor = clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    const double scale = std::isfinite(norm) ? factor / divisor : std::nan("");
    f64_result(arguments, 0) = count > 0.0 ? scale : empty;
    f64_result(arguments, 1) = norm;
  }};
}

template <std::size_t kStates>
std::optional<std::string> unsupported_update(const OpInstance& op) {
  return UpdateResults(op, DType::f32).mismatch(op, kStates);
}

PreparedKernel prepare_adamw(const OpInstance& op, const CpuEnvironment& environment) {
  const auto adamw = optimizer_kernels(environment.instruction_set()).adamw;
  const double beta1 = op.attributes.number("beta1");
  const double beta2 = op.attributes.number("beta2");
  const double epsilon = op.attributes.number("epsilon");
  return {[=, bucket = Bucket(op), threads = environment.threads()](const KernelArguments& arguments) {
    if (!std::isfinite(f64(arguments, 1))) return;
    const UpdateStep of_step = update_step(op, arguments.context);
    AdamWStep step;
    step.learning_rate = static_cast<float>(of_step.learning_rate);
    step.beta1 = static_cast<float>(beta1);
    step.beta2 = static_cast<float>(beta2);
    step.epsilon = static_cast<float>(epsilon);
    step.correction1 = static_cast<float>(1.0 - std::pow(beta1, of_step.updates));
    step.correction2 = static_cast<float>(1.0 - std::pow(beta2, of_step.updates));
    adamw(step, bucket.at(arguments), bucket.state(arguments, 0), bucket.state(arguments, 1), threads);
  }};
}

SgdStep sgd_step(const OpInstance& op, const KernelArguments& arguments) {
  SgdStep step;
  step.learning_rate = static_cast<float>(update_step(op, arguments.context).learning_rate);
  return step;
}

PreparedKernel prepare_sgd(const OpInstance& op, const CpuEnvironment& environment) {
  const auto sgd = optimizer_kernels(environment.instruction_set()).sgd;
  return {[=, bucket = Bucket(op), threads = environment.threads()](const KernelArguments& arguments) {
    if (!std::isfinite(f64(arguments, 1))) return;
    sgd(sgd_step(op, arguments), bucket.at(arguments), threads);
  }};
}

PreparedKernel prepare_sgd_momentum(const OpInstance& op, const CpuEnvironment& environment) {
  const auto sgd = optimizer_kernels(environment.instruction_set()).sgd_momentum;
  const auto momentum = static_cast<float>(op.attributes.number("momentum"));
  const bool nesterov = op.attributes.flag("nesterov");
  return {[=, bucket = Bucket(op), threads = environment.threads()](const KernelArguments& arguments) {
    if (!std::isfinite(f64(arguments, 1))) return;
    SgdStep step = sgd_step(op, arguments);
    step.momentum = momentum;
    step.nesterov = nesterov;
    sgd(step, bucket.at(arguments), bucket.state(arguments, 0), threads);
  }};
}

}  // namespace

void register_optimizer(Registration& registration) {
  registration.add(kernel({ops::kGradientScale, "dd", "dd", prepare_gradient_scale}));
  registration.add(kernel({"adamw_update", "rd", "rrr*", prepare_adamw, false, unsupported_update<2>}));
  registration.add(kernel({"sgd_update", "rd", "r*", prepare_sgd, false, unsupported_update<0>}));
  registration.add(kernel({"sgd_momentum_update", "rd", "rr*", prepare_sgd_momentum, false, unsupported_update<1>}));
}

}  // namespace strata::cpu
