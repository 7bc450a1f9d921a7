#include "strata/activation.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

/// Nested loops over named dims, with their strides in x and w.
struct Loops {
  Dims dims;
  Shape shape;
  Strides x;
  Strides w;
};

/// Adds the dims of `operand` that are not in `known`.
void add_missing_dims(const OperandDescription& operand, const Dims& known, Loops& loops) {
  for (std::size_t i = 0; i < operand.dims.size(); ++i) {
    if (find_dim(known, operand.dims[i]) >= 0 || find_dim(loops.dims, operand.dims[i]) >= 0) continue;
    loops.dims.push_back(operand.dims[i]);
    loops.shape.push_back(operand.shape[i]);
  }
}

/// sums[result dims] = sum over all other dims of x · w: an einsum with the dims' names as letters. If `has_bias`, the
/// third operand is a bias over some dims of the result. make_store(launch) returns a function that stores the sum at
/// an index of the result.
template <class MakeStore>
Work prepare_sums(const OpInstance& op, bool has_bias, const MakeStore& make_store) {
  const OperandDescription& x = op.operands[0];
  const OperandDescription& w = op.operands[1];
  Loops kept{op.results[0].dims, op.results[0].shape, {}, {}};
  Loops contracted;
  add_missing_dims(x, kept.dims, contracted);
  add_missing_dims(w, kept.dims, contracted);
  for (Loops* loops : {&kept, &contracted}) {
    loops->x = strides_along(x, loops->dims);
    loops->w = strides_along(w, loops->dims);
  }

  const Strides bias_strides = has_bias ? strides_along(op.operands[2], kept.dims) : Strides();

  // The last contracted dim is the inner loop.
  std::int64_t inner_size = 1;
  std::int64_t inner_x = 0;
  std::int64_t inner_w = 0;
  if (!contracted.dims.empty()) {
    inner_size = contracted.shape.back();
    inner_x = contracted.x.back();
    inner_w = contracted.w.back();
    for (auto* list : {&contracted.shape, &contracted.x, &contracted.w}) list->pop_back();
  }

  return [=](const Launch& launch) {
    const auto store = make_store(launch);
    const auto multiply = [&](const auto& x_values, const auto& w_values) {
      const std::int64_t count = element_count(kept.shape);
      const std::int64_t outer_count = element_count(contracted.shape);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t x_first = offset(i, kept.shape, kept.x);
        const std::int64_t w_first = offset(i, kept.shape, kept.w);
        double sum = has_bias ? launch.operand(2)[offset(i, kept.shape, bias_strides)] : 0.0;
        for (std::int64_t j = 0; j < outer_count; ++j) {
          const std::int64_t x_start = x_first + offset(j, contracted.shape, contracted.x);
          const std::int64_t w_start = w_first + offset(j, contracted.shape, contracted.w);
          for (std::int64_t k = 0; k < inner_size; ++k) {
            sum += x_values[x_start + k * inner_x] * w_values[w_start + k * inner_w];
          }
        }
        store(i, sum);
      }
    };
    launch.with_operand(0, [&](const auto& x_values) {
      launch.with_operand(1, [&](const auto& w_values) { multiply(x_values, w_values); });
    });
  };
}

auto store_sum(const Launch& launch) {
  return [result = launch.result(0)](std::int64_t i, double sum) { result.set(i, sum); };
}

Work prepare_linear(const OpInstance& op) { return prepare_sums(op, false, store_sum); }

Work prepare_linear_bias(const OpInstance& op) { return prepare_sums(op, true, store_sum); }

Work prepare_linear_bias_activation(const OpInstance& op) {
  const auto activate = activation_function(op.attributes.word("kind")).value;
  if (op.results.size() == 1) {
    return prepare_sums(op, true, [activate](const Launch& launch) {
      return [activate, result = launch.result(0)](std::int64_t i, double u) { result.set(i, activate(u)); };
    });
  }
  return prepare_sums(op, true, [activate](const Launch& launch) {
    return [activate, result = launch.result(0), input = launch.result(1)](std::int64_t i, double u) {
      result.set(i, activate(u));
      input.set(i, u);
    };
  });
}

Work prepare_linear_activation_gradient(const OpInstance& op) {
  return prepare_sums(op, false,
                      [derivative = activation_function(op.attributes.word("kind")).derivative](const Launch& launch) {
                        return [derivative, result = launch.result(0), u = launch.operand(2)](
                                   std::int64_t i, double sum) { result.set(i, sum * derivative(u[i])); };
                      });
}

}  // namespace

void register_linear(Registration& registration) {
  registration.add(kernel({"linear", "rr", "r", prepare_linear}));
  registration.add(kernel({"linear_bias", "rrr", "r", prepare_linear_bias}));
  registration.add(kernel({"linear_bias_activation", "rrr", "r*", prepare_linear_bias_activation, false}));
  registration.add(kernel({"linear_activation_gradient", "rrr", "r", prepare_linear_activation_gradient}));
}

}  // namespace strata::reference
