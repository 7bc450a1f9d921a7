#include "ops/op_base.hpp"

/// \file
/// Layer norm and RMS norm. They differ in their parameters and in the statistics of a row, of which layer norm has two
/// each (gain and bias, mean and inverse_std) and RMS norm one (gain, inverse_rms).

namespace strata::ops {
namespace {

/// The types of parameters and of statistics of rows if the last `dims` dims of x are normalised.
struct NormTypes {
  NormTypes(const TensorType& x, std::ptrdiff_t dims, const Node& node) {
    require(dims > 0 && dims <= std::ssize(x.dims), node,
            "cannot normalise " + std::to_string(dims) + " dims of " + to_string(x));
    parameter = {{x.dims.end() - dims, x.dims.end()}, statistic_type(x.dtype)};
    statistic = {{x.dims.begin(), x.dims.end() - dims}, statistic_type(x.dtype)};
  }

  TensorType parameter;
  TensorType statistic;
};

void require_all(const Types& types, std::size_t first, const TensorType& expected, const Node& node) {
  for (std::size_t i = first; i < types.size(); ++i) require_same(types[i], expected, node);
}

Types infer_norm(const Types& types, const Node& node) {
  require_float(types[0], node);
  require(node.attributes.number("epsilon") > 0, node, "epsilon must be above 0");
  const NormTypes norm(types[0], std::ssize(types[1].dims), node);
  require_all(types, 1, norm.parameter, node);
  Types results(types.size(), norm.statistic);
  results[0] = types[0];
  return results;
}

Types infer_norm_input_gradient(const Types& types, const Node& node) {
  require_same(types[1], types[0], node);
  const NormTypes norm(types[0], std::ssize(types[2].dims), node);
  require_same(types[2], norm.parameter, node);
  require_all(types, 3, norm.statistic, node);
  return {types[0]};
}

Types infer_norm_parameter_gradient(const Types& types, const Node& node) {
  require_same(types[1], types[0], node);
  const NormTypes norm(types[0], std::ssize(types[1].dims) - std::ssize(types[2].dims), node);
  require_all(types, 2, norm.statistic, node);
  return Types(types.size() - 2, norm.parameter);
}

/// The normalised dims, which are the last ones of x and those of operand `kGain`, must not be sharded.
template <std::size_t kGain>
void keep_parameters_whole(IterationSpace& space, const Node& /*node*/) {
  space.whole.insert(space.operands[kGain].begin(), space.operands[kGain].end());
}

/// The same for the gradient of parameters: they are the dims of x behind those of the statistics.
void keep_normalised_whole(IterationSpace& space, const Node& /*node*/) {
  space.whole.insert(space.operands[1].begin() + std::ssize(space.operands[2]), space.operands[1].end());
}

/// `count`: the number of parameters, and of statistics per row.
GradientRule norm_rule(const std::string& family, int count) {
  return [family, count](GradientContext& context) {
    const Value dy = *context.cotangent(0);
    std::vector<Value> statistics;
    bool has_parameter = false;
    for (int i = 1; i <= count; ++i) {
      require_no_cotangent(context, i);
      statistics.push_back(context.result(i));
      has_parameter = has_parameter || context.needs_gradient(i);
    }
    const auto emit = [&](int operand, const std::string& op, std::vector<Value> values) {
      values.insert(values.end(), statistics.begin(), statistics.end());
      return context.emit(operand, family + op, values, {});
    };
    const Value x = context.operand(0);
    if (context.needs_gradient(0)) {
      context.contribute(0, emit(0, "_input_gradient", {dy, x, context.operand(1)})[0]);
    }
    if (!has_parameter) return;
    const auto gradients = emit(1, "_parameter_gradient", {dy, x});
    for (int i = 1; i <= count; ++i) context.contribute(i, gradients[static_cast<std::size_t>(i - 1)]);
  };
}

/// The texts of a family: the norm, and the gradients of x and of the parameters.
struct NormTexts {
  std::string norm;
  std::string input_gradient;
  std::string parameter_gradient;
};

void add_norm(Registration& registration, const std::string& name, int count, const NormTexts& documentation) {
  const auto parameters = static_cast<std::size_t>(count);
  add_op(registration, {.name = name,
                        .documentation = documentation.norm,
                        .operands = 1 + parameters,
                        .infer = infer_norm,
                        .first_precisions = {OperandPrecision::any},
                        .gradient = norm_rule(name, count),
                        .iterate = keep_parameters_whole<1>});
  add_op(registration, {.name = name + "_input_gradient",
                        .documentation = documentation.input_gradient,
                        .operands = 3 + parameters,
                        .infer = infer_norm_input_gradient,
                        .in_place = {0},
                        .iterate = keep_parameters_whole<2>});
  add_op(registration, {.name = name + "_parameter_gradient",
                        .documentation = documentation.parameter_gradient,
                        .operands = 2 + parameters,
                        .infer = infer_norm_parameter_gradient,
                        .iterate = keep_normalised_whole});
}

/// The rows of x, whose parameters are like `parameter`.
struct Rows {
  Rows(const OpInstance& op, const OperandDescription& parameter)
      : width(elements(parameter)), count(elements(op.operands[0]) / width) {}

  std::int64_t width;
  std::int64_t count;
};

// Layer norm (kCentered) and RMS norm, which is layer norm with a mean of 0 and without a bias.

template <bool kCentered>
Work prepare_norm(const OpInstance& op) {
  const double epsilon = op.attributes.number("epsilon");
  return [epsilon, shape = Rows(op, op.operands[1])](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader gain = launch.operand(1);
    const Writer y = launch.result(0);
    const std::int64_t width = shape.width;
    const auto average = [width](double sum) { return sum / static_cast<double>(width); };
    for (std::int64_t row = 0; row < shape.count; ++row) {
      const std::int64_t first = row * width;
      double mean = 0.0;
      if constexpr (kCentered) {
        double sum = 0.0;
        for (std::int64_t j = 0; j < width; ++j) sum += x[first + j];
        mean = average(sum);
        launch.result(1).set(row, mean);
      }
      double squares = 0.0;
      for (std::int64_t j = 0; j < width; ++j) squares += (x[first + j] - mean) * (x[first + j] - mean);
      const double inverse = 1.0 / std::sqrt(average(squares) + epsilon);
      for (std::int64_t j = 0; j < width; ++j) {
        const double scaled = (x[first + j] - mean) * inverse * gain[j];
        y.set(first + j, kCentered ? scaled + launch.operand(2)[j] : scaled);
      }
      launch.result(kCentered ? 2 : 1).set(row, inverse);
    }
  };
}

/// The normalised rows of operand 1. Their statistics are the operands from `first` on.
template <bool kCentered>
class Normalized {
 public:
  Normalized(const Launch& launch, std::size_t first)
      : x_(launch.operand(1)), mean_(launch.operand(first)), inverse_(launch.operand(kCentered ? first + 1 : first)) {}

  [[nodiscard]] double inverse(std::int64_t row) const { return inverse_[row]; }
  /// Element `i`, which is in `row`, without the row's mean.
  [[nodiscard]] double centered(std::int64_t row, std::int64_t i) const {
    return kCentered ? x_[i] - mean_[row] : x_[i];
  }
  [[nodiscard]] double at(std::int64_t row, std::int64_t i) const { return centered(row, i) * inverse_[row]; }

 private:
  Reader x_;
  Reader mean_;
  Reader inverse_;
};

/// With x̂ the normalised x and g = dy · gain: dx = inverse · (g - average(g) - x̂ · average(g · x̂)). RMS norm has no
/// average(g).
template <bool kCentered>
Work prepare_norm_input_gradient(const OpInstance& op) {
  return [shape = Rows(op, op.operands[2])](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader gain = launch.operand(2);
    const Normalized<kCentered> normalized(launch, 3);
    const Writer dx = launch.result(0);
    const std::int64_t width = shape.width;
    for (std::int64_t row = 0; row < shape.count; ++row) {
      const std::int64_t first = row * width;
      double sum = 0.0;
      double product_sum = 0.0;
      for (std::int64_t j = 0; j < width; ++j) {
        const double g = dy[first + j] * gain[j];
        if (kCentered) sum += g;
        product_sum += g * normalized.at(row, first + j);
      }
      const double average = sum / static_cast<double>(width);
      const double product_average = product_sum / static_cast<double>(width);
      for (std::int64_t j = 0; j < width; ++j) {
        const double g = dy[first + j] * gain[j];
        dx.set(first + j, normalized.inverse(row) * (g - average - normalized.at(row, first + j) * product_average));
      }
    }
  };
}

template <bool kCentered>
Work prepare_norm_parameter_gradient(const OpInstance& op) {
  return [shape = Rows(op, op.results[0])](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Normalized<kCentered> normalized(launch, 2);
    const std::int64_t width = shape.width;
    for (std::int64_t j = 0; j < width; ++j) {
      double gain_sum = 0.0;
      double bias_sum = 0.0;
      for (std::int64_t row = 0; row < shape.count; ++row) {
        const std::int64_t i = row * width + j;
        gain_sum += dy[i] * normalized.centered(row, i) * normalized.inverse(row);
        bias_sum += dy[i];
      }
      launch.result(0).set(j, gain_sum);
      if constexpr (kCentered) launch.result(1).set(j, bias_sum);
    }
  };
}

}  // namespace

void register_norm(Registration& registration) {
  add_norm(
      registration, "layer_norm", 2,
      {"x […  E], gain [E], bias [E] -> y […  E], mean […], inverse_std […]: normalises E, the last dim or several "
       "(attribute epsilon); Ba, Kiros, Hinton, \"Layer Normalization\", 2016. All but x and y are f32 where x is "
       "shorter.",
       "dy […  E], x […  E], gain [E], mean […], inverse_std […] -> dx […  E].",
       "dy […  E], x […  E], mean […], inverse_std […] -> dgain [E], dbias [E]."});
  add_norm(
      registration, "rms_norm", 1,
      {"x […  E], gain [E] -> y […  E], inverse_rms […]: divides x by the root of the mean of its squares over E, the "
       "last dim or several (attribute epsilon, added to the mean), and multiplies by gain; Zhang, Sennrich, \"Root "
       "Mean Square Layer "
       "Normalization\", 2019. All but x and y are f32 where x is shorter.",
       "dy […  E], x […  E], gain [E], inverse_rms […] -> dx […  E].",
       "dy […  E], x […  E], inverse_rms […] -> dgain [E]."});
  registration.add(reference::kernel({"layer_norm", "rrr", "rrr", prepare_norm<true>, false}));
  registration.add(reference::kernel({"layer_norm_input_gradient", "rrrrr", "r", prepare_norm_input_gradient<true>}));
  registration.add(
      reference::kernel({"layer_norm_parameter_gradient", "rrrr", "rr", prepare_norm_parameter_gradient<true>}));
  registration.add(reference::kernel({"rms_norm", "rr", "rr", prepare_norm<false>, false}));
  registration.add(reference::kernel({"rms_norm_input_gradient", "rrrr", "r", prepare_norm_input_gradient<false>}));
  registration.add(
      reference::kernel({"rms_norm_parameter_gradient", "rrr", "r", prepare_norm_parameter_gradient<false>}));
}

}  // namespace strata::ops
