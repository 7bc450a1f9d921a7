#include <cmath>

#include "device/cuda_kernel.hpp"
#include "device/dim_index_map.hpp"
#include "device/operands.hpp"
#include "kernels/optimizer.cuh"
#include "language/launch.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/update_kernel.hpp"

namespace strata::cuda {
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
  if (size_of(op.results[0].dtype) > size_of(state)) return cannot_be("result 0", op.results[0].dtype);
  if (size_of(op.operands[0].dtype) > size_of(state)) return cannot_be("operand 0", op.operands[0].dtype);
  return unsupported_index_maps(op, op.operands[0].dims);
}

/// Calls function.operator()<Gradient, Value, P>() with the kernels' types for an update.
template <class Function>
PreparedKernel with_update_types(const OpInstance& op, const Function& function) {
  const auto with_state_type = [&]<class P>() {
    return with_element(op.operands[0].dtype, [&]<class Gradient>() {
      return with_element(op.results[0].dtype, [&]<class Value>() -> PreparedKernel {
        if constexpr (sizeof(Gradient) <= sizeof(P) && sizeof(Value) <= sizeof(P)) {
          return function.template operator()<Gradient, Value, P>();
        }
        throw VerificationError("op '" + op.name + "' updates values by a gradient that is wider than the states");
      });
    });
  };
  if (state_type(op) == DType::f64) return with_state_type.template operator()<double>();
  return with_state_type.template operator()<float>();
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

template <class Gradient, class Value, class P, class Update>
PreparedKernel prepare_update(const OpInstance& op, const CudaEnvironment& environment, const Update& update) {
  return {[=, step = environment.step_values(), decay = weight_decay<P>(op),
           largest = static_cast<P>(largest_gradient(op)), is_direction = takes_direction(op),
           size = elements(op.results[0])](const KernelArguments& arguments) {
    auto bucket = bucket_of<Gradient, Value, P, Update::kStates>(arguments, size);
    bucket.largest_gradient = largest;
    bucket.is_direction = is_direction;
    const Geometry geometry{{blocks_for(size, kUpdateThreads * kUpdateRun<Gradient, Value, P>)}, {kUpdateThreads}};
    launch(update_bucket<Update, Gradient, Value, P>, geometry, arguments.stream, update, step, decay, bucket);
  }};
}

PreparedKernel prepare_gradient_scale(const OpInstance& op, const CudaEnvironment& environment) {
  const double empty = op.attributes.has("skips_empty") ? std::nan("") : 0.0;
  return {
      [clip = op.attributes.number("clip"), empty, step = environment.step_values()](const KernelArguments& arguments) {
        launch(gradient_scale, {{1}, {kWarpSize}}, arguments.stream, clip, empty, step, in<double>(arguments, 0),
               in<double>(arguments, 1), out<double>(arguments, 0), out<double>(arguments, 1));
      }};
}

PreparedKernel prepare_adamw(const OpInstance& op, const CudaEnvironment& environment) {
  const double beta1 = op.attributes.number("beta1");
  const double beta2 = op.attributes.number("beta2");
  return with_update_types(op, [&]<class Gradient, class Value, class P>() {
    AdamW<P> update;
    update.lr_factor = static_cast<P>(learning_rate_factor(op));
    update.beta1 = static_cast<P>(beta1);
    update.beta2 = static_cast<P>(beta2);
    update.one_minus_beta1 = static_cast<P>(1.0 - beta1);
    update.one_minus_beta2 = static_cast<P>(1.0 - beta2);
    update.log_beta1 = static_cast<P>(std::log(beta1));
    update.log_beta2 = static_cast<P>(std::log(beta2));
    update.epsilon = static_cast<P>(op.attributes.number("epsilon"));
    return prepare_update<Gradient, Value, P>(op, environment, update);
  });
}

PreparedKernel prepare_sgd(const OpInstance& op, const CudaEnvironment& environment) {
  return with_update_types(op, [&]<class Gradient, class Value, class P>() {
    Sgd<P> update;
    update.lr_factor = static_cast<P>(learning_rate_factor(op));
    return prepare_update<Gradient, Value, P>(op, environment, update);
  });
}

PreparedKernel prepare_sgd_momentum(const OpInstance& op, const CudaEnvironment& environment) {
  return with_update_types(op, [&]<class Gradient, class Value, class P>() {
    SgdMomentum<P> update;
    update.lr_factor = static_cast<P>(learning_rate_factor(op));
    update.momentum = static_cast<P>(op.attributes.number("momentum"));
    update.nesterov = op.attributes.flag("nesterov");
    return prepare_update<Gradient, Value, P>(op, environment, update);
  });
}

PreparedKernel prepare_lion(const OpInstance& op, const CudaEnvironment& environment) {
  return with_update_types(op, [&]<class Gradient, class Value, class P>() {
    Lion<P> update;
    update.lr_factor = static_cast<P>(learning_rate_factor(op));
    update.beta1 = static_cast<P>(op.attributes.number("beta1"));
    update.beta2 = static_cast<P>(op.attributes.number("beta2"));
    return prepare_update<Gradient, Value, P>(op, environment, update);
  });
}

PreparedKernel prepare_momentum_direction(const OpInstance& op, const CudaEnvironment& environment) {
  return with_update_types(op, [&]<class Gradient, class Value, class P>() {
    MomentumDirection<P> update;
    update.momentum = static_cast<P>(op.attributes.number("momentum"));
    if (op.attributes.flag("nesterov")) update.look_ahead = 1 - update.momentum;
    return prepare_update<Gradient, Value, P>(op, environment, update);
  });
}

}  // namespace

void register_optimizer(Registration& registration) {
  registration.add(kernel({ops::kGradientScale, "dd", "dd", prepare_gradient_scale}));
  registration.add(kernel({"adamw_update", "rd", "rrr*", prepare_adamw, false, unsupported_update<2>}));
  registration.add(kernel({"sgd_update", "rd", "r*", prepare_sgd, false, unsupported_update<0>}));
  registration.add(kernel({"sgd_momentum_update", "rd", "rr*", prepare_sgd_momentum, false, unsupported_update<1>}));
  registration.add(
      kernel({"momentum_direction", "rd", "rr*", prepare_momentum_direction, false, unsupported_update<1>}));
  registration.add(kernel({"lion_update", "rd", "rr*", prepare_lion, false, unsupported_update<1>}));
}

}  // namespace strata::cuda
