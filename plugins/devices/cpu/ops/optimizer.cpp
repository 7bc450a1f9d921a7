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

/// Results of an update: the values, then a "master" copy in f32 where the values are shorter, then the states.
bool has_master(const OpInstance& op) { return op.results[0].dtype != DType::f32; }

/// What the kernels see of a launch.
class Bucket {
 public:
  explicit Bucket(const OpInstance& op)
      : segments_(decay_segments(op)),
        gradient_type_(element_of(op.operands[0].dtype)),
        values_type_(element_of(op.results[0].dtype)),
        has_master_(has_master(op)) {}

  [[nodiscard]] UpdatedBucket at(const KernelArguments& arguments) const {
    UpdatedBucket bucket;
    bucket.segments = segments_.data();
    bucket.segment_count = static_cast<int>(segments_.size());
    bucket.gradient_type = gradient_type_;
    bucket.gradient = arguments.operands[0];
    bucket.parameter = f32_result(arguments, has_master_ ? 1 : 0);
    bucket.rounded_type = values_type_;
    bucket.rounded = has_master_ ? arguments.results[0] : nullptr;
    return bucket;
  }

  [[nodiscard]] float* state(const KernelArguments& arguments, std::size_t index) const {
    return f32_result(arguments, index + (has_master_ ? 2 : 1));
  }

 private:
  std::vector<DecaySegment> segments_;
  Element gradient_type_;
  Element values_type_;
  bool has_master_;
};

std::optional<std::string> unsupported_update(const OpInstance& op, std::size_t states) {
  const std::size_t expected = states + (has_master(op) ? 2 : 1);
  if (op.results.size() != expected) {
    return "takes " + std::to_string(expected) + " results for values in " +
           std::string(to_string(op.results[0].dtype)) + ", found " + std::to_string(op.results.size());
  }
  for (std::size_t i = 1; i < op.results.size(); ++i) {
    const DType found = op.results[i].dtype;
    if (found != DType::f32) return "result " + std::to_string(i) + " cannot be " + std::string(to_string(found));
  }
  return std::nullopt;
}

}  // namespace

/// norm = √(sum of squares) / (count · loss scale); scale = min(1, clip / (norm + 1e-6)) / (count · loss scale).
/// Without a single target both are 0; a norm that is not finite gives a scale that is not, at which updates change
/// nothing.
ComputeKernel prepare_gradient_scale(const OpInstance& op, const Environment& /*environment*/) {
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

std::optional<std::string> unsupported_adamw_update(const OpInstance& op) { return unsupported_update(op, 2); }

ComputeKernel prepare_adamw_update(const OpInstance& op, const Environment& environment) {
  const auto adamw = environment.library->optimizer.adamw;
  const double beta1 = op.attributes.number("beta1");
  const double beta2 = op.attributes.number("beta2");
  const double epsilon = op.attributes.number("epsilon");
  return {[=, bucket = Bucket(op), threads = environment.threads](const KernelArguments& arguments) {
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

std::optional<std::string> unsupported_sgd_update(const OpInstance& op) { return unsupported_update(op, 1); }

ComputeKernel prepare_sgd_update(const OpInstance& op, const Environment& environment) {
  const auto sgd = environment.library->optimizer.sgd;
  const auto momentum = static_cast<float>(op.attributes.number("momentum"));
  return {[=, bucket = Bucket(op), threads = environment.threads](const KernelArguments& arguments) {
    if (!std::isfinite(f64(arguments, 1))) return;
    SgdStep step;
    step.learning_rate = static_cast<float>(arguments.context.learning_rate);
    step.momentum = momentum;
    step.gradient_scale = static_cast<float>(f64(arguments, 1));
    sgd(step, bucket.at(arguments), bucket.state(arguments, 0), threads);
  }};
}

}  // namespace strata::cpu
