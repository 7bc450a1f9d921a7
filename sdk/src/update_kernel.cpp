#include "strata/update_kernel.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "strata/half.hpp"
#include "strata/op.hpp"
#include "strata/optimizer.hpp"
#include "strata/reference_kernel.hpp"

namespace strata {
namespace {

/// The work of one launch of a reference update.
void update_all(const reference::Launch& launch, const UpdateResults& results, std::size_t states,
                const std::vector<DecaySegment>& segments, const detail::UpdateElement& element) {
  const reference::Reader gradient = launch.operand(0);
  const double scale = takes_direction(launch.op()) ? 1.0 : launch.operand(1)[0];
  const double largest = largest_gradient(launch.op());
  const reference::Writer parameter = launch.result(results.parameter());
  const reference::Writer values = launch.result(0);
  std::vector<reference::Writer> writers;
  for (std::size_t s = 0; s < states; ++s) writers.push_back(launch.result(results.state(s)));
  std::vector<double> state(states);
  for (const DecaySegment& segment : segments) {
    const double weight_decay = segment.weight_decay * launch.context().weight_decay_factor;
    for (std::int64_t i = segment.begin; i < segment.begin + segment.length; ++i) {
      for (std::size_t s = 0; s < states; ++s) state[s] = writers[s].get(i);
      parameter.set(
          i, element(parameter.get(i), std::clamp(gradient[i] * scale, -largest, largest), weight_decay, state.data()));
      for (std::size_t s = 0; s < states; ++s) writers[s].set(i, state[s]);
      if (results.has_master()) values.set(i, parameter.get(i));
    }
  }
}

// Conversions without branches, of which the compiler makes vector instructions. They give the bits of strata/half.hpp.

struct BFloat16Bits {
  static float widen(std::uint16_t bits) { return from_bf16(bits); }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    return static_cast<std::uint16_t>(is_nan ? (bits >> 16U) | 0x40U : rounded);
  }
};

struct Float16Bits {
  /// Changes the exponent's bias by a multiplication, which keeps subnormal numbers exact.
  static float widen(std::uint16_t half) {
    const std::uint32_t bits = half;
    const float magnitude = std::bit_cast<float>((bits & 0x7FFFU) << 13U) * 0x1p112F;
    const std::uint32_t special = (bits & 0x3FFU) != 0 ? 0x7FC00000U : 0x7F800000U;  // NaN, infinity
    const bool is_special = (bits & 0x7C00U) == 0x7C00U;
    const std::uint32_t result = is_special ? special : std::bit_cast<std::uint32_t>(magnitude);
    return std::bit_cast<float>(((bits & 0x8000U) << 16U) | result);
  }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    // Below 2^-14 a binary16 has a spacing of 2^-24, as a binary32 has near 0.5. So adding 0.5 rounds to that spacing.
    const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
    const std::uint32_t rebased = magnitude - (112U << 23U);
    const std::uint32_t normal = (rebased + 0xFFFU + ((rebased >> 13U) & 1U)) >> 13U;
    std::uint32_t result = magnitude < 0x38800000U ? small : normal;
    result = magnitude >= 0x477FF000U ? 0x7C00U : result;
    result = magnitude > 0x7F800000U ? 0x7E00U : result;
    return static_cast<std::uint16_t>(((bits >> 16U) & 0x8000U) | result);
  }
};

template <class Format>
STRATA_FASTEST_CLONE void widen_all(const std::uint16_t* __restrict from, std::int64_t count, float* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Format::widen(from[i]);
}
template <class Format>
STRATA_FASTEST_CLONE void narrow_all(const float* __restrict from, std::int64_t count, std::uint16_t* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Format::narrow(from[i]);
}

/// The type of the parameters in which a reference update computes: that of the values, or of the longer master copy.
DType full_type(const OpInstance& op) { return op.results.size() > 1 ? op.results[1].dtype : op.results[0].dtype; }

}  // namespace

std::optional<std::string> UpdateResults::mismatch(const OpInstance& op, std::size_t states) const {
  const std::size_t expected = state(states);
  if (op.results.size() != expected) {
    return "takes " + std::to_string(expected) + " results for values in " +
           std::string(to_string(op.results[0].dtype)) + " and states in " + std::string(to_string(full_)) +
           ", found " + std::to_string(op.results.size());
  }
  for (std::size_t i = 1; i < op.results.size(); ++i) {
    const DType found = op.results[i].dtype;
    if (found != full_) return "result " + std::to_string(i) + " cannot be " + std::string(to_string(found));
  }
  return std::nullopt;
}

std::vector<DecaySegment> decay_segments(const OpInstance& op) {
  const double weight_decay = op.attributes.number(UpdateAttributes::kWeightDecay);
  const std::int64_t decay_elements = op.attributes.integer(UpdateAttributes::kDecayElements);
  std::vector<DecaySegment> segments;
  for (const IndexSegment& segment : kernels::index_map(op, op.operands[0].dims[0]).segments) {
    const std::int64_t decayed = std::clamp(decay_elements - segment.global_begin, std::int64_t{0}, segment.length);
    if (decayed > 0) segments.push_back({segment.local_begin, decayed, weight_decay});
    if (decayed < segment.length) segments.push_back({segment.local_begin + decayed, segment.length - decayed, 0.0});
  }
  return segments;
}

double learning_rate_factor(const OpInstance& op) {
  const char* name = UpdateAttributes::kLearningRateFactor;
  return op.attributes.has(name) ? op.attributes.number(name) : 1.0;
}

double largest_gradient(const OpInstance& op) {
  const char* name = UpdateAttributes::kClipValue;
  return op.attributes.has(name) ? op.attributes.number(name) : std::numeric_limits<double>::infinity();
}

bool takes_direction(const OpInstance& op) {
  const char* name = UpdateAttributes::kIsDirection;
  return op.attributes.has(name) && op.attributes.flag(name);
}

UpdateStep update_step(const OpInstance& op, const StepContext& context) {
  return {context.learning_rate * learning_rate_factor(op),
          static_cast<double>(context.step - context.skipped_steps + 1)};
}

std::unique_ptr<OpDefinition> elementwise_update_op(UpdateDescription description) {
  // The operands are the gradient and its scale.
  return std::make_unique<FlatOp>(
      std::move(description.op), std::move(description.documentation),
      FlatSignature{.inputs = 2, .is_update = !description.makes_direction, .states = std::move(description.states)});
}

namespace detail {

UpdateArrays::UpdateArrays(const OpInstance& op, const UpdateResults& results, const KernelArguments& arguments)
    : results_(results),
      arguments_(arguments),
      gradient_type_(op.operands[0].dtype),
      rounded_type_(op.results[0].dtype),
      parameter_(kernels::out<float>(arguments, results.parameter())) {}

float* UpdateArrays::state(std::size_t index) const { return kernels::out<float>(arguments_, results_.state(index)); }

const float* UpdateArrays::gradient(std::int64_t begin, std::int64_t count, float* buffer) const {
  if (gradient_type_ == DType::f32) return kernels::in<float>(arguments_, 0) + begin;
  const auto* bits = kernels::in<std::uint16_t>(arguments_, 0) + begin;
  (gradient_type_ == DType::bf16 ? widen_all<BFloat16Bits> : widen_all<Float16Bits>)(bits, count, buffer);
  return buffer;
}

void UpdateArrays::round(std::int64_t begin, std::int64_t count) const {
  if (!results_.has_master()) return;
  auto* bits = kernels::out<std::uint16_t>(arguments_, 0) + begin;
  (rounded_type_ == DType::bf16 ? narrow_all<BFloat16Bits> : narrow_all<Float16Bits>)(parameter_ + begin, count, bits);
}

KernelDefinition reference_update(const std::string& op, std::size_t states,
                                  std::function<BeginUpdate(const OpInstance&)> prepare) {
  KernelDefinition kernel;
  kernel.op = op;
  kernel.signature = {"rd", "r*", false, {DType::f64, DType::f32, DType::bf16, DType::f16}};
  kernel.rank = kReferenceRank;
  kernel.prepare = [states, prepare = std::move(prepare)](const OpInstance& instance, const KernelEnvironment&) {
    return PreparedKernel{[instance, states, begin = prepare(instance),
                           segments = decay_segments(instance)](const KernelArguments& arguments) {
      const reference::Launch launch(instance, arguments);
      if (!std::isfinite(launch.operand(1)[0])) return;
      update_all(launch, UpdateResults(instance, full_type(instance)), states, segments,
                 begin(update_step(instance, arguments.context)));
    }};
  };
  kernel.unsupported = [states](const OpInstance& instance, const KernelEnvironment&) {
    return UpdateResults(instance, full_type(instance)).mismatch(instance, states);
  };
  return kernel;
}

}  // namespace detail
}  // namespace strata
