#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/matrices.hpp"
#include "strata/error.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"
#include "strata/update_kernel.hpp"

namespace muon {
namespace {

using namespace strata;
using namespace matrices;

/// The Newton-Schulz iteration that moves all singular values of a matrix towards 1. Each step maps X to
/// a X + b (X Xᵀ) X + c (X Xᵀ)² X.
struct NewtonSchulz {
  double a = 0;
  double b = 0;
  double c = 0;
  std::int64_t steps = 0;
  /// Factor of the result.
  double scale = 1;
};

/// Keeps the quotient finite for a direction of zeros.
constexpr double kEpsilon = 1e-7;

/// Emits the ops of the iteration.
class Iteration {
 public:
  Iteration(WholeContext& context, const NamedBuffer& direction, const View& view)
      : context_(context), dims_(direction.dims), matrices_(view.matrices) {
    // The iteration needs the products along one side. The shorter side makes the smaller ones.
    const bool inputs = size(view.inputs) < size(view.outputs) ||
                        (size(view.inputs) == size(view.outputs) && view.inputs.size() <= view.outputs.size());
    side_ = inputs ? view.inputs : view.outputs;
  }

  /// Divides each matrix by its Frobenius norm, so that no singular value exceeds 1.
  NamedBuffer normalize(const NamedBuffer& x) {
    const DType type = context_.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const NamedBuffer squares = context_.emit(
        "linear", {x, x}, matrices_, {{"result", join(matrices_)}, {"dtype", std::string(to_string(type))}}, type);
    return context_.emit("normalize", {x, squares}, dims_, {{"epsilon", kEpsilon}});
  }

  NamedBuffer step(const NamedBuffer& x, const NewtonSchulz& by, double scale) {
    const NamedBuffer gram = product(x, {x.buffer, renamed(dims_, 1)}, square(1));
    // Both factors are symmetric, so only the names of the dims matter.
    const NamedBuffer gram_squared = product(gram, {gram.buffer, shifted_square()}, square(2));
    const NamedBuffer sum = context_.emit("weighted_sum", {gram, {gram_squared.buffer, gram.dims}}, gram.dims,
                                          {{"factor0", by.b}, {"factor1", by.c}});
    const NamedBuffer turned = product(sum, {x.buffer, renamed(dims_, 1)}, dims_);
    return context_.emit("weighted_sum", {x, turned}, dims_, {{"factor0", by.a * scale}, {"factor1", scale}});
  }

 private:
  [[nodiscard]] std::int64_t size(const Dims& dims) const {
    std::int64_t product = 1;
    for (const Dim& dim : dims) product *= context_.size(dim);
    return product;
  }

  /// `dims` with another name for the dims of the side.
  Dims renamed(const Dims& dims, int number) {
    Dims names;
    for (const Dim& dim : dims) names.push_back(contains(side_, dim) ? context_.rename(dim, number) : dim);
    return names;
  }

  /// [matrices, side, side under another name]
  Dims square(int number) {
    Dims dims = matrices_;
    dims.insert(dims.end(), side_.begin(), side_.end());
    const Dims other = renamed(side_, number);
    dims.insert(dims.end(), other.begin(), other.end());
    return dims;
  }

  /// The dims of the second factor of the square: [matrices, side~1, side~2].
  Dims shifted_square() {
    Dims dims = matrices_;
    for (const int number : {1, 2}) {
      const Dims names = renamed(side_, number);
      dims.insert(dims.end(), names.begin(), names.end());
    }
    return dims;
  }

  NamedBuffer product(const NamedBuffer& x, const NamedBuffer& y, const Dims& result) {
    return context_.emit("linear", {x, y}, result, {{"result", join(result)}});
  }

  WholeContext& context_;
  Dims dims_;
  Dims matrices_;
  Dims side_;
};

/// Emits the iteration on every matrix of a parameter.
NamedBuffer emit(WholeContext& context, const NamedBuffer& direction, const View& view, const NewtonSchulz& iteration) {
  Iteration emitted(context, direction, view);
  NamedBuffer x = emitted.normalize(direction);
  for (std::int64_t i = 0; i < iteration.steps; ++i) {
    x = emitted.step(x, iteration, i + 1 == iteration.steps ? iteration.scale : 1.0);
  }
  return x;
}

/// The iteration in plain code, on one matrix of `rows` rows.
void iterate(std::vector<double>& matrix, std::int64_t rows, const NewtonSchulz& iteration) {
  const auto height = static_cast<std::size_t>(rows);
  const std::size_t width = matrix.size() / height;
  double squares = 0;
  for (const double each : matrix) squares += each * each;
  for (double& each : matrix) each /= std::sqrt(squares) + kEpsilon;
  for (std::int64_t i = 0; i < iteration.steps; ++i) {
    const std::vector<double> gram = multiply(matrix, transpose(matrix, height, width), height, width, height);
    std::vector<double> sum = multiply(gram, gram, height, height, height);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = iteration.b * gram[k] + iteration.c * sum[k];
    const std::vector<double> turned = multiply(sum, matrix, height, height, width);
    for (std::size_t k = 0; k < matrix.size(); ++k) matrix[k] = iteration.a * matrix[k] + turned[k];
  }
  for (double& each : matrix) each *= iteration.scale;
}

/// Muon: momentum, orthogonalised matrix by matrix (Jordan et al., "Muon: An optimizer for hidden layers in neural
/// networks", 2024). It keeps one state. It is meant for the weights of hidden layers; other parameters get another
/// optimizer by an [[optimizer.group]].

constexpr const char* kMomentum = "momentum";

template <class T>
struct MomentumDirection {
  static constexpr std::size_t kStates = 1;

  explicit MomentumDirection(const Attributes& attributes)
      : momentum(static_cast<T>(attributes.number("momentum"))),
        look_ahead(attributes.flag("nesterov") ? 1 - momentum : T{0}) {}

  void begin(const UpdateStep& /*step*/) {}

  T operator()(T /*parameter*/, T gradient, T /*weight_decay*/, T* average) const {
    *average = momentum * *average + (1 - momentum) * gradient;
    return *average + look_ahead * (gradient - *average);
  }

  T momentum;
  /// Share of the gradient in the direction.
  T look_ahead;
};

class Muon final : public Optimizer {
 public:
  static OptionSchema schema() {
    return {
        option::number("momentum", 0.95, 0, 0.999999, "Decay rate of the moving average of gradients."),
        option::boolean("nesterov", true, "Look ahead along the momentum (Nesterov)."),
        option::integer("steps", 5, 1, 30, "Steps of the Newton-Schulz iteration."),
        {.name = "coefficients",
         .type = OptionType::numbers,
         .default_value = std::vector<double>{3.4445, -4.7750, 2.0315},
         .documentation = "Coefficients of X, X³ and X⁵ in each step."},
        option::word("scale", "adamw",
                     "Size of an update. adamw: 0.2 √max(inputs, outputs), so that it is as large as AdamW's, whose "
                     "learning rate and weight decay then fit (Liu et al., \"Muon is Scalable for LLM Training\", "
                     "2025). spectral: √max(1, outputs / inputs), as Jordan et al. published it.",
                     {"adamw", "spectral"}),
        option::words("split", "Dimensions whose indices are matrices of their own, such as [\"heads\"].")};
  }

  explicit Muon(const Options& options)
      : momentum_(options.number("momentum")),
        nesterov_(options.boolean("nesterov")),
        split_(options.words("split")),
        matches_adamw_(options.word("scale") == "adamw") {
    const std::vector<double>& coefficients = options.numbers("coefficients");
    if (coefficients.size() != 3) {
      throw OptionError("coefficients",
                        "found a list of " + std::to_string(coefficients.size()) + "; accepted: a list of 3 numbers");
    }
    iteration_ = {coefficients[0], coefficients[1], coefficients[2], options.integer("steps"), 1};
  }

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& /*parameter*/) const override {
    return {{kMomentum}};
  }
  [[nodiscard]] bool wants_own_bucket() const override { return true; }
  [[nodiscard]] std::optional<std::string> refusal(const ParameterDescription& parameter) const override {
    return fault(parameter, view(parameter, split_));
  }

  void update(UpdateContext& context) const override {
    const View sides = view(context.parameter(), split_);
    const BufferId momentum =
        context.direction("momentum_direction", {{"momentum", momentum_}, {"nesterov", nesterov_}});
    const BufferId orthogonal =
        context.on_whole(momentum, sides.matrices, [=, this](WholeContext& whole, const NamedBuffer& direction) {
          return emit(whole, direction, sides, scaled(size_of(whole, sides.inputs), size_of(whole, sides.outputs)));
        });
    context.update("sgd_update", {}, UpdateOperands{.direction = orthogonal});
  }

  void define(DefinedUpdate& update) const override {
    std::vector<double>& momentum = update.states.at(kMomentum);
    std::vector<double> direction(momentum.size());
    for (std::size_t i = 0; i < momentum.size(); ++i) {
      momentum[i] = momentum_ * momentum[i] + (1 - momentum_) * update.gradient[i];
      direction[i] = nesterov_ ? momentum_ * momentum[i] + (1 - momentum_) * update.gradient[i] : momentum[i];
    }
    orthogonalize(direction, update);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      update.values[i] -= update.learning_rate * (direction[i] + update.weight_decay * update.values[i]);
    }
  }

 private:
  /// The iteration for matrices of a size, with the scale that is published for it.
  [[nodiscard]] NewtonSchulz scaled(double inputs, double outputs) const {
    NewtonSchulz iteration = iteration_;
    iteration.scale =
        matches_adamw_ ? 0.2 * std::sqrt(std::max(inputs, outputs)) : std::sqrt(std::max(1.0, outputs / inputs));
    return iteration;
  }

  /// Orthogonalises every matrix of a row-major parameter.
  void orthogonalize(std::vector<double>& direction, const DefinedUpdate& update) const {
    const DefinedMatrices whole(update.parameter.dims, update.shape, view(update.parameter, split_));
    std::vector<Matrix> each = whole.split(direction);
    const NewtonSchulz iteration = scaled(static_cast<double>(whole.rows()), static_cast<double>(whole.columns()));
    for (Matrix& matrix : each) iterate(matrix, static_cast<std::int64_t>(whole.rows()), iteration);
    whole.join(each, direction);
  }

  double momentum_;
  bool nesterov_;
  std::vector<std::string> split_;
  bool matches_adamw_;
  NewtonSchulz iteration_;
};

class MuonFactory final : public FactoryOf<OptimizerFactory, Muon> {
 public:
  void provide(Registration& registration, const Options& /*options*/) const override {
    provide_update<MomentumDirection>(
        registration,
        {.op = "momentum_direction",
         .documentation = "gradient, scale [] f64 -> direction, momentum (attributes momentum, nesterov): the moving "
                          "average of gradients, with Nesterov's look-ahead if nesterov is true.",
         .states = {kMomentum},
         .makes_direction = true});
  }
};

}  // namespace
}  // namespace muon

STRATA_PLUGIN(optimizer, "muon", "0.1.0", "Apache-2.0",
              "Muon: orthogonalised momentum for matrices (Jordan et al., 2024). One state, half of AdamW's memory.",
              muon::MuonFactory);
