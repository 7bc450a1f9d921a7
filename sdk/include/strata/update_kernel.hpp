#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/export.hpp"
#include "strata/kernel.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/registration.hpp"

/// \file
/// Kernels of updates: what all of them need, and an update op with its kernels made of one function per element.
///
/// Example, for gradient descent:
///
///   template <class T>
///   struct Descent {
///     static constexpr std::size_t kStates = 0;
///     explicit Descent(const Attributes&) {}
///     void begin(const UpdateStep& step) { learning_rate = static_cast<T>(step.learning_rate); }
///     T operator()(T parameter, T gradient, T weight_decay, T*) const {
///       return parameter - learning_rate * (gradient + weight_decay * parameter);
///     }
///     T learning_rate = 0;
///   };
///   provide_update<Descent>(registration, {"descent_update", "gradient, scale -> values: gradient descent.", {}});

/// Compiles a function for wider vectors too, and chooses when the program starts. Sanitizers cannot follow the choice.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STRATA_FASTEST_CLONE [[gnu::target_clones("avx2", "default")]]
#else
#define STRATA_FASTEST_CLONE
#endif

namespace strata {

/// The order of an update's results: the values, a master copy if the values are shorter than `full`, the states.
/// Master copy and states have the type `full`.
class STRATA_API UpdateResults {
 public:
  UpdateResults(const OpInstance& op, DType full) : full_(full), has_master_(op.results[0].dtype != full) {}

  [[nodiscard]] bool has_master() const { return has_master_; }
  /// Index of the result in which the update computes: the master copy, or else the values.
  [[nodiscard]] std::size_t parameter() const { return has_master_ ? 1 : 0; }
  [[nodiscard]] std::size_t state(std::size_t index) const { return parameter() + 1 + index; }
  /// Why the results of `op` do not have this order for an update with `states` states. Empty if they do.
  [[nodiscard]] std::optional<std::string> mismatch(const OpInstance& op, std::size_t states) const;

 private:
  DType full_;
  bool has_master_;
};

/// A run of this rank's piece of a bucket with one weight decay, still without StepContext::weight_decay_factor.
/// Segments are in ascending order and cover the piece.
struct DecaySegment {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  double weight_decay = 0;
};

/// Splits the rank's piece where weight decay ends: it applies to the first `decay_elements` of the whole bucket.
[[nodiscard]] STRATA_API std::vector<DecaySegment> decay_segments(const OpInstance& op);

/// The factor of StepContext::learning_rate (the attribute `lr_factor`); 1 without it.
[[nodiscard]] STRATA_API double learning_rate_factor(const OpInstance& op);

/// The largest magnitude of an element of the scaled gradient (the attribute `clip_value`); infinity without it.
[[nodiscard]] STRATA_API double largest_gradient(const OpInstance& op);

/// True if the first operand is a direction, which is not scaled (the attribute `is_direction`).
[[nodiscard]] STRATA_API bool takes_direction(const OpInstance& op);

/// Values of one step, the same for all elements.
struct UpdateStep {
  /// Learning rate of the bucket.
  double learning_rate = 0;
  /// Updates so far, including this one: the t of 1 - beta^t.
  double updates = 1;
};

[[nodiscard]] STRATA_API UpdateStep update_step(const OpInstance& op, const StepContext& context);

/// The name of an update op, its documentation, and its states in the order of its results.
struct UpdateDescription {
  std::string op;
  std::string documentation;
  std::vector<std::string> states;
  /// True for an op that makes a direction (UpdateContext::direction). The value that its rule returns is the element
  /// of the direction, and the parameter that the rule gets is undefined.
  bool makes_direction = false;
};

/// The definition of an update op that changes every element by itself.
[[nodiscard]] STRATA_API std::unique_ptr<OpDefinition> elementwise_update_op(UpdateDescription description);

namespace detail {

/// The arguments of one launch as arrays of f32. The gradient and the rounded values may be shorter.
class STRATA_API UpdateArrays {
 public:
  UpdateArrays(const OpInstance& op, const UpdateResults& results, const KernelArguments& arguments);

  [[nodiscard]] float* parameter() const { return parameter_; }
  [[nodiscard]] float* state(std::size_t index) const;
  /// Gradients begin to begin + count, in f32. They are written to `buffer` if they are stored in another type.
  const float* gradient(std::int64_t begin, std::int64_t count, float* buffer) const;
  /// Writes the rounded copy of parameters begin to begin + count, if there is one.
  void round(std::int64_t begin, std::int64_t count) const;

 private:
  const UpdateResults& results_;
  const KernelArguments& arguments_;
  DType gradient_type_;
  DType rounded_type_;
  float* parameter_;
};

/// Prepares the reference kernel of an update. `launch` updates one element: the parameter and the states, from the
/// gradient and the weight decay.
using UpdateElement = std::function<double(double parameter, double gradient, double weight_decay, double* states)>;
/// Makes the function of one launch.
using BeginUpdate = std::function<UpdateElement(const UpdateStep& step)>;
[[nodiscard]] STRATA_API KernelDefinition reference_update(const std::string& op, std::size_t states,
                                                           std::function<BeginUpdate(const OpInstance&)> prepare);

inline constexpr std::int64_t kUpdateBlock = 512;

/// How a stored gradient becomes the one that a rule sees.
struct GradientScale {
  float factor = 1;
  /// The largest magnitude of the product.
  float largest = 0;

  [[nodiscard]] float operator()(float gradient) const {
    const float scaled = gradient * factor;
    const float below = scaled < largest ? scaled : largest;
    return below > -largest ? below : -largest;
  }
};

/// Updates `count` elements in f32. The compiler makes vector instructions of the loop if it knows `count`. `kState`: 0
/// to Rule::kStates - 1.
template <class Rule, std::size_t... kState>
[[gnu::always_inline]] inline void update_block(const Rule& rule, std::int64_t count, const float* gradient,
                                                const GradientScale& scale, float weight_decay, float* parameter,
                                                float* const* states, std::index_sequence<kState...> /*of_states*/) {
  const Rule of_block = rule;  // copies that the loop cannot change
  const GradientScale scaled = scale;
  float* const state[] = {states[kState]..., nullptr};
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    float values[] = {state[kState][i]..., 0.0F};
    parameter[i] = of_block(parameter[i], scaled(gradient[i]), weight_decay, values);
    ((state[kState][i] = values[kState]), ...);
  }
}

/// Updates the elements of a segment from `begin` to `end`.
template <class Rule>
STRATA_FASTEST_CLONE void update_range(const Rule& rule, const UpdateArrays& arrays, const GradientScale& scale,
                                       float weight_decay, std::int64_t begin, std::int64_t end) {
  constexpr auto kStates = std::make_index_sequence<Rule::kStates>();
  float buffer[kUpdateBlock];
  for (std::int64_t at = begin; at < end; at += kUpdateBlock) {
    const std::int64_t count = at + kUpdateBlock <= end ? kUpdateBlock : end - at;
    const float* gradient = arrays.gradient(at, count, buffer);
    float* states[Rule::kStates == 0 ? 1 : Rule::kStates] = {};
    for (std::size_t s = 0; s < Rule::kStates; ++s) states[s] = arrays.state(s) + at;
    if (count == kUpdateBlock) {
      update_block(rule, kUpdateBlock, gradient, scale, weight_decay, arrays.parameter() + at, states, kStates);
    } else {
      update_block(rule, count, gradient, scale, weight_decay, arrays.parameter() + at, states, kStates);
    }
    arrays.round(at, count);
  }
}

template <class Rule>
PreparedKernel prepare_host_update(const OpInstance& op, const KernelEnvironment& environment) {
  return {[op, results = UpdateResults(op, DType::f32), segments = decay_segments(op), prepared = Rule(op.attributes),
           largest = static_cast<float>(largest_gradient(op)), is_direction = takes_direction(op),
           threads = environment.threads()](const KernelArguments& arguments) {
    const double factor = *kernels::in<double>(arguments, 1);
    if (!std::isfinite(factor)) return;
    const GradientScale scale{is_direction ? 1.0F : static_cast<float>(factor), largest};
    Rule rule = prepared;
    rule.begin(update_step(op, arguments.context));
    const UpdateArrays arrays(op, results, arguments);
    for (const DecaySegment& segment : segments) {
      const auto weight_decay = static_cast<float>(segment.weight_decay * arguments.context.weight_decay_factor);
      kernels::parallel_ranges(threads, segment.length, [&](std::int64_t begin, std::int64_t end) {
        update_range(rule, arrays, scale, weight_decay, segment.begin + begin, segment.begin + end);
      });
    }
  }};
}

}  // namespace detail

// A rule may be in an anonymous namespace of a file that a unity build includes. GCC warns there, although the lambdas
// of an instantiation are as local as the rule.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

/// Registers an update op with its reference kernel and a fast kernel for host memory. `Rule<T>` computes in T, which
/// is double or float. It has
/// - `kStates`, the number of states;
/// - a constructor from the op's Attributes;
/// - `begin(const UpdateStep&)`, called once per launch;
/// - `T operator()(T parameter, T gradient, T weight_decay, T* states) const`, which returns the new parameter and
///   changes the states. The gradient is scaled and clipped already. A function without branches becomes vector
///   instructions.
template <template <class> class Rule>
void provide_update(Registration& registration, UpdateDescription description) {
  static_assert(Rule<float>::kStates == Rule<double>::kStates);
  const std::string op = description.op;
  registration.add(elementwise_update_op(std::move(description)));
  registration.add(detail::reference_update(op, Rule<double>::kStates, [](const OpInstance& instance) {
    return [prepared = Rule<double>(instance.attributes)](const UpdateStep& step) {
      Rule<double> rule = prepared;
      rule.begin(step);
      return [rule](double parameter, double gradient, double weight_decay, double* states) {
        return rule(parameter, gradient, weight_decay, states);
      };
    };
  }));
  registration.add({.op = op,
                    .signature = {"rd", "r*"},
                    .prepare = detail::prepare_host_update<Rule<float>>,
                    .unsupported = [](const OpInstance& instance, const KernelEnvironment&) {
                      return UpdateResults(instance, DType::f32).mismatch(instance, Rule<float>::kStates);
                    }});
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace strata
