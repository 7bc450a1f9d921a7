#include <cmath>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "language/index_map.hpp"
#include "language/language.hpp"
#include "launchers/call.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/gpu_kernel.hpp"
#include "strata/update_kernel.hpp"

namespace strata::cuda {

// Updates of a flat bucket of parameters. Parameters and states are P: f32, or f64 in f64 runs.

/// norm = √(sum of squares) / (count · loss scale); scale = min(1, clip / (norm + 1e-6)) / (count · loss scale). If
/// there is no target, the norm is 0 and the scale `empty`. If the norm is not finite, the scale is NaN, at which
/// updates change nothing.
static __global__ void gradient_scale(double clip, double empty, const StepValues* step, const double* sum_of_squares,
                                      const double* count, double* scale, double* norm) {
  if (threadIdx.x != 0) return;
  const bool has_targets = *count > 0;
  const double divisor = *count * step->loss_scale;
  const double length = has_targets ? sqrt(*sum_of_squares) / divisor : 0;
  double factor = 1;
  if (clip > 0) factor = fmin(1.0, clip / (length + 1e-6));
  const bool is_finite = length < static_cast<double>(INFINITY);  // also false for NaN
  *scale = !has_targets ? empty : is_finite ? factor / divisor : static_cast<double>(NAN);
  *norm = length;
}

__device__ __forceinline__ float exponential_minus_one(float x) { return expm1f(x); }
__device__ __forceinline__ double exponential_minus_one(double x) { return expm1(x); }

/// At least 1, because C++ has no arrays without elements.
template <int States>
inline constexpr int kStateSlots = States > 0 ? States : 1;

template <class P>
struct AdamW {
  static constexpr int kStates = 2;
  P beta1 = 0;
  P beta2 = 0;
  P one_minus_beta1 = 1;
  P one_minus_beta2 = 1;
  P log_beta1 = 0;
  P log_beta2 = 0;
  P epsilon = 0;
  P lr_factor = 1;
  // Values of the step.
  P learning_rate = 0;
  /// 1 / (1 - beta^t)
  P first_correction = 1;
  P second_correction = 1;

  explicit AdamW(const OpInstance& op)
      : beta1(static_cast<P>(op.attributes.number("beta1"))),
        beta2(static_cast<P>(op.attributes.number("beta2"))),
        one_minus_beta1(static_cast<P>(1.0 - op.attributes.number("beta1"))),
        one_minus_beta2(static_cast<P>(1.0 - op.attributes.number("beta2"))),
        log_beta1(static_cast<P>(std::log(op.attributes.number("beta1")))),
        log_beta2(static_cast<P>(std::log(op.attributes.number("beta2")))),
        epsilon(static_cast<P>(op.attributes.number("epsilon"))),
        lr_factor(static_cast<P>(learning_rate_factor(op))) {}

  __device__ __forceinline__ void begin(const StepValues& step) {
    const auto t = static_cast<P>(step.updates);
    learning_rate = static_cast<P>(step.learning_rate) * lr_factor;
    // This form is accurate even if beta^t is close to 1.
    first_correction = P{-1} / exponential_minus_one(t * log_beta1);
    second_correction = P{-1} / exponential_minus_one(t * log_beta2);
  }

  /// The new parameter.
  __device__ __forceinline__ P operator()(P parameter, P gradient, P weight_decay, P (&moments)[kStates]) const {
    moments[0] = beta1 * moments[0] + one_minus_beta1 * gradient;
    moments[1] = beta2 * moments[1] + one_minus_beta2 * gradient * gradient;
    const P direction = moments[0] * first_correction / (square_root(moments[1] * second_correction) + epsilon);
    return parameter - learning_rate * (direction + weight_decay * parameter);
  }
};

template <class P>
struct Sgd {
  static constexpr int kStates = 0;
  P lr_factor = 1;
  /// Learning rate of the step.
  P learning_rate = 0;

  explicit Sgd(const OpInstance& op) : lr_factor(static_cast<P>(learning_rate_factor(op))) {}

  __device__ __forceinline__ void begin(const StepValues& step) {
    learning_rate = static_cast<P>(step.learning_rate) * lr_factor;
  }

  /// The new parameter.
  __device__ __forceinline__ P operator()(P parameter, P gradient, P weight_decay, P (&)[1]) const {
    return parameter - learning_rate * (gradient + weight_decay * parameter);
  }
};

template <class P>
struct SgdMomentum : Sgd<P> {
  static constexpr int kStates = 1;
  P momentum = 0;
  bool nesterov = false;

  explicit SgdMomentum(const OpInstance& op)
      : Sgd<P>(op),
        momentum(static_cast<P>(op.attributes.number("momentum"))),
        nesterov(op.attributes.flag("nesterov")) {}

  /// The new parameter.
  __device__ __forceinline__ P operator()(P parameter, P gradient, P weight_decay, P (&buffer)[kStates]) const {
    buffer[0] = momentum * buffer[0] + gradient;
    const P direction = nesterov ? gradient + momentum * buffer[0] : buffer[0];
    return parameter - this->learning_rate * (direction + weight_decay * parameter);
  }
};

/// An update without states and values of the step.
struct ConstantUpdate {
  static constexpr int kStates = 0;

  __device__ __forceinline__ void begin(const StepValues& /*step*/) {}
};

template <class P>
struct ScaledGradient : ConstantUpdate {
  explicit ScaledGradient(const OpInstance& /*op*/) {}

  __device__ __forceinline__ P operator()(P /*parameter*/, P gradient, P /*weight_decay*/, P (&)[1]) const {
    return gradient;
  }
};

template <class P>
struct RunningAverage : ConstantUpdate {
  P micro_batches = 1;

  explicit RunningAverage(const OpInstance& op)
      : micro_batches(static_cast<P>(op.attributes.number("micro_batches"))) {}

  __device__ __forceinline__ P operator()(P average, P change, P /*weight_decay*/, P (&)[1]) const {
    return average + change / micro_batches;
  }
};

template <class P>
struct Sign : ConstantUpdate {
  P step = 0;

  explicit Sign(const OpInstance& op) : step(static_cast<P>(op.attributes.number("step"))) {}

  __device__ __forceinline__ P operator()(P value, P change, P /*weight_decay*/, P (&)[1]) const {
    return value + step * static_cast<P>((change > 0) - (change < 0));
  }
};

/// Of the optimizer plugin `muon`. Returns an element of the direction.
template <class P>
struct MomentumDirection : ConstantUpdate {
  static constexpr int kStates = 1;
  P momentum = 0;
  /// Share of the gradient in the direction.
  P look_ahead = 0;

  explicit MomentumDirection(const OpInstance& op)
      : momentum(static_cast<P>(op.attributes.number("momentum"))),
        look_ahead(op.attributes.flag("nesterov") ? 1 - momentum : 0) {}

  __device__ __forceinline__ P operator()(P /*parameter*/, P gradient, P /*weight_decay*/,
                                          P (&average)[kStates]) const {
    average[0] = momentum * average[0] + (1 - momentum) * gradient;
    return average[0] + look_ahead * (gradient - average[0]);
  }
};

/// Of the optimizer plugin `lion`.
template <class P>
struct Lion : Sgd<P> {
  static constexpr int kStates = 1;
  P beta1 = 0;
  P beta2 = 0;

  explicit Lion(const OpInstance& op)
      : Sgd<P>(op),
        beta1(static_cast<P>(op.attributes.number("beta1"))),
        beta2(static_cast<P>(op.attributes.number("beta2"))) {}

  /// The new parameter.
  __device__ __forceinline__ P operator()(P parameter, P gradient, P weight_decay, P (&momentum)[kStates]) const {
    const P mixed = beta1 * momentum[0] + (1 - beta1) * gradient;
    momentum[0] = beta2 * momentum[0] + (1 - beta2) * gradient;
    const P direction = static_cast<P>((mixed > 0) - (mixed < 0));
    return parameter - this->learning_rate * (direction + weight_decay * parameter);
  }
};

/// The elements to which weight decay applies: those of the whole bucket below a bound.
template <class P>
struct WeightDecay {
  P value = 0;
  std::int64_t end = 0;
  /// Maps elements of this shard to elements of the bucket.
  DimIndexMap map;

  __device__ __forceinline__ P at(std::int64_t i) const { return map.global_index(i) < end ? value : P{0}; }
};

/// The arrays of an update.
template <class Gradient, class Value, class P, int States>
struct UpdatedBucket {
  std::int64_t size = 0;
  /// True if all addresses are aligned.
  bool packed = false;
  const double* gradient_scale = nullptr;
  /// True if `gradient` is a direction, which is not scaled.
  bool is_direction = false;
  /// The largest magnitude of an element of the scaled gradient.
  P largest_gradient = 0;
  const Gradient* gradient = nullptr;
  P* parameter = nullptr;
  /// A rounded copy of the parameters. Null if there is none.
  Value* rounded = nullptr;
  P* states[kStateSlots<States>] = {};
};

inline constexpr int kUpdateThreads = 256;

template <class Gradient, class Value, class P>
inline constexpr int kUpdateRun = kRunLength<Gradient, Value, P>;

template <int N, class Update, class Gradient, class Value, class P>
__device__ __forceinline__ void update_run(const Update& update, const WeightDecay<P>& decay, P scale, std::int64_t at,
                                           const UpdatedBucket<Gradient, Value, P, Update::kStates>& bucket) {
  P gradient[N];
  P parameter[N];
  P states[kStateSlots<Update::kStates>][N];
  load_run<N>(bucket.gradient + at, gradient);
  load_run<N>(bucket.parameter + at, parameter);
#pragma unroll
  for (int s = 0; s < Update::kStates; ++s) load_run<N>(bucket.states[s] + at, states[s]);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    P state[kStateSlots<Update::kStates>];
#pragma unroll
    for (int s = 0; s < Update::kStates; ++s) state[s] = states[s][i];
    const P scaled = gradient[i] * scale;
    const P below = scaled < bucket.largest_gradient ? scaled : bucket.largest_gradient;
    const P clipped = below > -bucket.largest_gradient ? below : -bucket.largest_gradient;
    parameter[i] = update(parameter[i], clipped, decay.at(at + i), state);
#pragma unroll
    for (int s = 0; s < Update::kStates; ++s) states[s][i] = state[s];
  }
  store_run<N>(bucket.parameter + at, parameter);
  if (bucket.rounded != nullptr) store_run<N>(bucket.rounded + at, parameter);
#pragma unroll
  for (int s = 0; s < Update::kStates; ++s) store_run<N>(bucket.states[s] + at, states[s]);
}

/// Applies an update to every element. Changes nothing if the scale is not finite.
template <class Update, class Gradient, class Value, class P>
__global__ void __launch_bounds__(kUpdateThreads)
    update_bucket(Update update, const StepValues* step, WeightDecay<P> decay,
                  UpdatedBucket<Gradient, Value, P, Update::kStates> bucket) {
  constexpr int kRun = kUpdateRun<Gradient, Value, P>;
  const double scale = *bucket.gradient_scale;
  if (!(fabs(scale) < static_cast<double>(INFINITY))) return;
  const P factor = bucket.is_direction ? P{1} : static_cast<P>(scale);
  update.begin(*step);
  decay.value *= static_cast<P>(step->weight_decay_factor);
  const std::int64_t in_runs = bucket.packed ? bucket.size - bucket.size % kRun : 0;
  const std::int64_t at = (std::int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x) * kRun;
  if (at < in_runs) update_run<kRun>(update, decay, factor, at, bucket);
  for_each_single(in_runs, bucket.size, [&](std::int64_t i) { update_run<1>(update, decay, factor, i, bucket); });
}

namespace {

/// The type of the states and of the parameters or their master copy: f32, or f64 in f64 runs.
DType state_type(const OpInstance& op) { return op.results.back().dtype; }

template <std::size_t kStates>
std::optional<std::string> unsupported_update(const OpInstance& op) {
  const DType state = state_type(op);
  if (auto reason = UpdateResults(op, state).mismatch(op, kStates)) return reason;
  const auto cannot_be = [](const std::string& what, DType found) {
    return what + " cannot be " + std::string(to_string(found));
  };
  if (state != DType::f32 && state != DType::f64) return cannot_be("the last result", state);
  // In f64 runs all is f64.
  const auto fits = [state](DType found) { return (found == DType::f64) == (state == DType::f64); };
  if (!fits(op.results[0].dtype)) return cannot_be("result 0", op.results[0].dtype);
  if (!fits(op.operands[0].dtype)) return cannot_be("operand 0", op.operands[0].dtype);
  return unsupported_index_maps(op, op.operands[0].dims);
}

/// Calls function.operator()<Gradient, Value, P>() with the kernels' types for an update that is not unsupported.
template <class Function>
PreparedKernel with_update_types(const OpInstance& op, const Function& function) {
  if (state_type(op) == DType::f64) return function.template operator()<double, double, double>();
  return with_element(op.operands[0].dtype, [&]<class Gradient>() {
    return with_element(op.results[0].dtype, [&]<class Value>() -> PreparedKernel {
      if constexpr (sizeof(Gradient) <= sizeof(float) && sizeof(Value) <= sizeof(float)) {
        return function.template operator()<Gradient, Value, float>();
      }
      throw VerificationError("op '" + op.name + "' updates f32 states by f64");
    });
  });
}

template <class P>
WeightDecay<P> weight_decay(const OpInstance& op) {
  return {static_cast<P>(op.attributes.number("weight_decay")), op.attributes.integer("decay_elements"),
          dim_index_map(op, op.operands[0].dims[0])};
}

template <class Gradient, class Value, class P, int States>
UpdatedBucket<Gradient, Value, P, States> bucket_of(const KernelArguments& arguments, std::int64_t size) {
  constexpr bool kHasMaster = !std::is_same_v<Value, P>;
  UpdatedBucket<Gradient, Value, P, States> bucket;
  bucket.size = size;
  bucket.gradient_scale = in<double>(arguments, 1);
  bucket.gradient = in<Gradient>(arguments, 0);
  bucket.parameter = out<P>(arguments, kHasMaster ? 1 : 0);
  if (kHasMaster) bucket.rounded = out<Value>(arguments, 0);
  bucket.packed = are_aligned(bucket.gradient, bucket.parameter, bucket.rounded);
  for (int s = 0; s < States; ++s) {
    bucket.states[s] = out<P>(arguments, static_cast<std::size_t>(s) + (kHasMaster ? 2 : 1));
    bucket.packed = bucket.packed && is_aligned(bucket.states[s]);
  }
  return bucket;
}

template <template <class> class Update>
PreparedKernel prepare_update(const OpInstance& op, const CudaEnvironment& environment) {
  return with_update_types(op, [&]<class Gradient, class Value, class P>() -> PreparedKernel {
    return {[update = Update<P>(op), step = environment.step_values(), decay = weight_decay<P>(op),
             largest = static_cast<P>(largest_gradient(op)), is_direction = takes_direction(op),
             size = elements(op.results[0])](const KernelArguments& arguments) {
      auto bucket = bucket_of<Gradient, Value, P, Update<P>::kStates>(arguments, size);
      bucket.largest_gradient = largest;
      bucket.is_direction = is_direction;
      const Geometry geometry{{blocks_for(size, kUpdateThreads * kUpdateRun<Gradient, Value, P>)}, {kUpdateThreads}};
      launch(update_bucket<Update<P>, Gradient, Value, P>, geometry, arguments.stream, update, step, decay, bucket);
    }};
  });
}

template <template <class> class Update>
void add_update(Registration& registration, const std::string& op) {
  constexpr std::size_t kStates = Update<float>::kStates;
  add(registration, {op, "rd", std::string(kStates + 1, 'r') + "*", false, unsupported_update<kStates>},
      prepare_update<Update>);
}

}  // namespace

void register_optimizer(Registration& registration) {
  add(registration, {ops::kGradientScale, "dd", "dd"}, [](const OpInstance& op, const CudaEnvironment& environment) {
    const double empty = op.attributes.has("skips_empty") ? std::nan("") : 0.0;
    return call(gradient_scale, {{1}, {kWarpSize}}, op.attributes.number("clip"), empty, environment.step_values(),
                Operand<double>{0}, Operand<double>{1}, Result<double>{0}, Result<double>{1});
  });
  add_update<AdamW>(registration, "adamw_update");
  add_update<Sgd>(registration, "sgd_update");
  add_update<SgdMomentum>(registration, "sgd_momentum_update");
  add_update<MomentumDirection>(registration, "momentum_direction");
  add_update<ScaledGradient>(registration, "scaled_gradient");
  add_update<Lion>(registration, "lion_update");
  add_update<RunningAverage>(registration, ops::kRunningAverageUpdate);
  add_update<Sign>(registration, ops::kSignUpdate);
}

}  // namespace strata::cuda
