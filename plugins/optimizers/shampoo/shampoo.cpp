#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/matrices.hpp"
#include "strata/op.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/update_kernel.hpp"

namespace shampoo {
namespace {

using namespace strata;
using namespace matrices;

// Shampoo (Gupta, Koren, Singer, "Shampoo: Preconditioned Stochastic Tensor Optimization", ICML 2018). Of each matrix
// with the gradient G it keeps the moving averages L of G Gᵀ and R of Gᵀ G, and the momentum M. The direction is
// L^(-1/4) M R^(-1/4), scaled to the size of AdamW's updates, so factors of L and R cancel out.
//
// The inverse roots are computed every `period` steps (Anil et al., "Scalable Second Order Optimization for Deep
// Learning", 2020). They are kept as their difference from the identity, which is zero before the first ones.

constexpr const char* kMomentum = "momentum";
constexpr const char* kIdentityMinus = "identity_minus";
constexpr const char* kScaledGradient = "scaled_gradient";

/// Root mean square of the elements of AdamW's updates (Liu et al., "Muon is Scalable for LLM Training", 2025).
constexpr double kUpdateSize = 0.2;
/// Keeps quotients by norms finite. Squares of smaller norms are zero in f32.
constexpr double kEpsilon = 1e-18;

/// The states of one side of a matrix.
struct Side {
  const char* factor;
  const char* root;
};
constexpr Side kInputs{"input_factor", "input_root"};
constexpr Side kOutputs{"output_factor", "output_root"};

/// How factors and their inverse fourth roots are computed: by a coupled Newton iteration (Guo, Higham, "A Schur-Newton
/// Method for the Matrix pth Root and its Inverse", 2006). X begins as I and M as the factor. T = (5 I - M) / 4, X T
/// and T⁴ M are the next X and M, until M is I and X the root. The iteration holds Y = X - I and E = I - M.
struct Settings {
  double momentum = 0;
  double decay = 0;
  std::int64_t period = 1;
  std::int64_t iterations = 1;
  double ridge = 0;
};

/// Emits the direction of one parameter.
class Direction {
 public:
  Direction(WholeContext& context, const View& view, const Settings& settings)
      : context_(context),
        view_(view),
        settings_(settings),
        type_(context.dtype() == DType::f64 ? DType::f64 : DType::f32) {}

  NamedBuffer of(NamedBuffer gradient) {
    if (context_.dtype() != type_) gradient = cast(gradient, type_);
    const NamedBuffer momentum = context_.state(kMomentum);
    context_.change_state(kMomentum, sum(1 - settings_.momentum, gradient, settings_.momentum - 1, momentum));
    NamedBuffer direction = momentum;
    for (const auto& [side, dims] : {std::pair{kInputs, view_.inputs}, {kOutputs, view_.outputs}}) {
      const NamedBuffer factor = context_.state(side.factor);
      const NamedBuffer products = product(gradient, renamed(gradient, dims), factor.dims);
      context_.change_state(side.factor, sum(1 - settings_.decay, products, settings_.decay - 1, factor));
      const NamedBuffer root = context_.state(side.root);
      context_.every(settings_.period,
                     [&] { context_.change_state(side.root, sum(1, inverse_root(factor, dims), -1, root)); });
      direction = sum(1, direction, 1, product(root, renamed(direction, dims), direction.dims));
    }
    const double elements = size_of(context_, view_.inputs) * size_of(context_, view_.outputs);
    direction =
        emit("weighted_sum", {normalized(direction)}, direction.dims, {{"factor0", kUpdateSize * std::sqrt(elements)}});
    return context_.dtype() == type_ ? direction : cast(direction, context_.dtype());
  }

 private:
  /// The inverse fourth root of a factor, up to a number, minus the identity.
  NamedBuffer inverse_root(const NamedBuffer& factor, const Dims& side) {
    NamedBuffer e = emit(kIdentityMinus, {normalized(factor)}, factor.dims,
                         {{"ridge", settings_.ridge}, {"side", static_cast<std::int64_t>(side.size())}});
    NamedBuffer y = emit("weighted_sum", {e}, e.dims, {{"factor0", 0.25}});
    for (std::int64_t i = 1; i < settings_.iterations; ++i) {
      const NamedBuffer u = sum(0.5, e, 0.0625, square(e, e, side));  // T² - I
      const NamedBuffer w = sum(2, u, 1, square(u, u, side));         // T⁴ - I
      e = sum(1, sum(1, e, -1, w), 1, square(w, e, side));
      y = sum(1, sum(1, y, 0.25, e), 0.25, square(y, e, side));
    }
    return y;
  }

  /// x · y of two symmetric matrices that commute, such as a matrix and a polynomial of it.
  NamedBuffer square(const NamedBuffer& x, const NamedBuffer& y, const Dims& side) {
    Dims left = view_.matrices;
    Dims right = view_.matrices;
    for (const int number : {0, 2}) append(left, side, number);
    for (const int number : {1, 2}) append(right, side, number);
    return product({x.buffer, left}, {y.buffer, right}, x.dims);
  }

  /// Divides each matrix by its norm.
  NamedBuffer normalized(const NamedBuffer& x) {
    const NamedBuffer squares = product(x, x, view_.matrices);
    return emit("normalize", {x, squares}, x.dims, {{"epsilon", kEpsilon}});
  }

  void append(Dims& dims, const Dims& side, int number) {
    for (const Dim& dim : side) dims.push_back(number == 0 ? dim : context_.rename(dim, number));
  }

  /// `x` with the names of the second side of a factor instead of the dims of the first.
  NamedBuffer renamed(NamedBuffer x, const Dims& side) {
    for (Dim& dim : x.dims) {
      if (find_dim(side, dim) >= 0) dim = context_.rename(dim, 1);
    }
    return x;
  }

  NamedBuffer product(const NamedBuffer& x, const NamedBuffer& y, const Dims& result) {
    return emit("linear", {x, y}, result, {{"result", join(result)}});
  }
  NamedBuffer sum(double a, const NamedBuffer& x, double b, const NamedBuffer& y) {
    return emit("weighted_sum", {x, y}, x.dims, {{"factor0", a}, {"factor1", b}});
  }
  NamedBuffer cast(const NamedBuffer& x, DType type) {
    return context_.emit("cast", {x}, x.dims, {{"dtype", std::string(to_string(type))}}, type);
  }
  NamedBuffer emit(const std::string& op, const std::vector<NamedBuffer>& operands, const Dims& result,
                   Attributes attributes) {
    return context_.emit(op, operands, result, std::move(attributes), type_);
  }

  WholeContext& context_;
  const View& view_;
  const Settings& settings_;
  DType type_;
};

/// The same in plain code on one matrix.
class DefinedDirection {
 public:
  DefinedDirection(const DefinedUpdate& update, const Settings& settings) : update_(update), settings_(settings) {}

  /// `index`: of the matrix `gradient`. `momentum`: its state. \return the direction.
  Matrix of(std::size_t index, const Matrix& gradient, Matrix& momentum, std::size_t rows, std::size_t columns) {
    move(momentum.data(), gradient, settings_.momentum);
    const Matrix transposed = transpose(gradient, rows, columns);
    const Matrix left = root(kInputs, index, multiply(gradient, transposed, rows, columns, rows), rows);
    const Matrix right = root(kOutputs, index, multiply(transposed, gradient, columns, rows, columns), columns);
    Matrix direction = multiply(multiply(left, momentum, rows, rows, columns), right, rows, columns, columns);
    normalize(direction);
    for (double& each : direction) each *= kUpdateSize * std::sqrt(static_cast<double>(direction.size()));
    return direction;
  }

 private:
  /// Moves the factor of a side towards `products`. \return the present root.
  Matrix root(const Side& side, std::size_t index, const Matrix& products, std::size_t size) const {
    double* const factor = update_.states.at(side.factor).data() + index * size * size;
    double* const state = update_.states.at(side.root).data() + index * size * size;
    move(factor, products, settings_.decay);
    if (update_.is_every(settings_.period)) {
      const Matrix fresh = inverse_root(Matrix(factor, factor + size * size), size);
      for (std::size_t i = 0; i < fresh.size(); ++i) state[i] = fresh[i] - (i % (size + 1) == 0 ? 1 : 0);
    }
    Matrix root(state, state + size * size);
    for (std::size_t i = 0; i < size; ++i) root[i * (size + 1)] += 1;
    return root;
  }

  [[nodiscard]] Matrix inverse_root(Matrix m, std::size_t size) const {
    normalize(m);
    Matrix x(m.size());
    for (std::size_t i = 0; i < size; ++i) {
      m[i * (size + 1)] += settings_.ridge;
      x[i * (size + 1)] = 1;
    }
    for (std::int64_t k = 0; k < settings_.iterations; ++k) {
      Matrix t = m;
      for (std::size_t i = 0; i < t.size(); ++i) t[i] = ((i % (size + 1) == 0 ? 5 : 0) - m[i]) / 4;
      const Matrix t2 = multiply(t, t, size, size, size);
      x = multiply(x, t, size, size, size);
      m = multiply(multiply(t2, t2, size, size, size), m, size, size, size);
    }
    return x;
  }

  static void normalize(Matrix& matrix) {
    double squares = 0;
    for (const double each : matrix) squares += each * each;
    for (double& each : matrix) each /= std::sqrt(squares) + kEpsilon;
  }

  static void move(double* average, const Matrix& value, double decay) {
    for (std::size_t i = 0; i < value.size(); ++i) average[i] += (1 - decay) * (value[i] - average[i]);
  }

  const DefinedUpdate& update_;
  const Settings& settings_;
};

/// Hands the gradient on, scaled and clipped.
template <class T>
struct ScaledGradient {
  static constexpr std::size_t kStates = 0;

  explicit ScaledGradient(const Attributes& /*attributes*/) {}
  void begin(const UpdateStep& /*step*/) {}
  T operator()(T /*parameter*/, T gradient, T /*weight_decay*/, T* /*states*/) const { return gradient; }
};

class IdentityMinus final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kIdentityMinus; }
  [[nodiscard]] std::string documentation() const override {
    return "x [… s s'] -> (1 - ridge) I - x (attributes ridge, and side: the number of dims of s and of s'): the first "
           "step of an iteration for inverse roots of square matrices.";
  }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const TensorType x = graph.type(node.operands.at(0));
    const std::int64_t side = node.attributes.integer("side");
    if (side < 1 || 2 * side > static_cast<std::int64_t>(x.dims.size())) {
      throw VerificationError("op " + node.op + " '" + node.name + "': " + to_string(x) +
                              " has no square matrices of " + std::to_string(side) + " dims a side");
    }
    return {x};
  }
  [[nodiscard]] IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    const Dims& dims = space.results[0];
    space.whole.insert(dims.end() - 2 * node.attributes.integer("side"), dims.end());
    return space;
  }
};

/// Rows of the square matrices that follow one another.
std::int64_t side_of(const OpInstance& op) {
  std::int64_t size = 1;
  const Shape& shape = op.results[0].shape;
  for (auto d = shape.end() - op.attributes.integer("side"); d != shape.end(); ++d) size *= *d;
  return size;
}

reference::Work prepare_reference(const OpInstance& op) {
  return [size = side_of(op), ridge = op.attributes.number("ridge")](const reference::Launch& launch) {
    for (std::int64_t i = 0; i < reference::elements(launch.op().results[0]); ++i) {
      const bool is_diagonal = i / size % size == i % size;
      launch.result(0).set(i, (is_diagonal ? 1 - ridge : 0) - launch.operand(0)[i]);
    }
  };
}

PreparedKernel prepare_host(const OpInstance& op, const KernelEnvironment& environment) {
  const std::int64_t size = side_of(op);
  const auto diagonal = static_cast<float>(1 - op.attributes.number("ridge"));
  return {[=, rows = kernels::elements(op.results[0]) / size,
           threads = environment.threads()](const KernelArguments& arguments) {
    const auto* const x = kernels::in<float>(arguments, 0);
    auto* const y = kernels::out<float>(arguments, 0);
    kernels::parallel_ranges(threads, rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t i = row * size; i < (row + 1) * size; ++i) y[i] = -x[i];
        y[row * size + row % size] += diagonal;
      }
    });
  }};
}

class Shampoo final : public Optimizer {
 public:
  static OptionSchema schema() {
    return {
        option::number("momentum", 0.95, 0, 0.999999, "Decay rate of the moving average of gradients."),
        option::number("decay", 0.95, 0, 0.999999, "Decay rate of the moving averages of products of gradients."),
        option::integer("period", 10, 1, 1000000, "Steps from one computation of the inverse roots to the next."),
        option::integer("iterations", 20, 1, 100, "Iterations for each inverse root."),
        option::number("ridge", 1e-5, 1e-12, 1, "What is added to the diagonals of factors, as a share of their norm."),
        option::words("split", "Dimensions whose indices are matrices of their own, such as [\"heads\"].")};
  }

  explicit Shampoo(const Options& options)
      : settings_{options.number("momentum"), options.number("decay"), options.integer("period"),
                  options.integer("iterations"), options.number("ridge")},
        split_(options.words("split")) {}

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& parameter) const override {
    const View sides = view(parameter, split_);
    std::vector<OptimizerState> states{{.name = kMomentum, .is_of_whole = true}};
    for (const auto& [side, dims] : {std::pair{kInputs, sides.inputs}, {kOutputs, sides.outputs}}) {
      Dims square = sides.matrices;
      for (int i = 0; i < 2; ++i) square.insert(square.end(), dims.begin(), dims.end());
      states.push_back({side.factor, square, true});
      states.push_back({side.root, square, true});
    }
    return states;
  }
  [[nodiscard]] bool wants_own_bucket() const override { return true; }
  [[nodiscard]] std::optional<std::string> refusal(const ParameterDescription& parameter) const override {
    return fault(parameter, view(parameter, split_));
  }

  void update(UpdateContext& context) const override {
    const View sides = view(context.parameter(), split_);
    const BufferId gradient = context.direction(kScaledGradient, {});
    const BufferId direction =
        context.on_whole(gradient, sides.matrices, [=, this](WholeContext& whole, const NamedBuffer& of_whole) {
          return Direction(whole, sides, settings_).of(of_whole);
        });
    context.update("sgd_update", {}, UpdateOperands{.direction = direction});
  }

  void define(DefinedUpdate& update) const override {
    const DefinedMatrices whole(update, view(update.parameter, split_));
    std::vector<Matrix> each = whole.split(update.gradient);
    std::vector<Matrix> momentum = whole.split(update.states.at(kMomentum));
    DefinedDirection direction(update, settings_);
    for (std::size_t i = 0; i < each.size(); ++i) {
      each[i] = direction.of(i, each[i], momentum[i], whole.rows(), whole.columns());
    }
    whole.join(momentum, update.states.at(kMomentum));
    std::vector<double> directions(update.values.size());
    whole.join(each, directions);
    for (std::size_t i = 0; i < directions.size(); ++i) {
      update.values[i] -= update.learning_rate * (directions[i] + update.weight_decay * update.values[i]);
    }
  }

 private:
  Settings settings_;
  std::vector<std::string> split_;
};

class ShampooFactory final : public FactoryOf<OptimizerFactory, Shampoo> {
 public:
  void provide(Registration& registration, const Options& /*options*/) const override {
    provide_update<ScaledGradient>(registration,
                                   {.op = kScaledGradient,
                                    .documentation = "gradient, scale [] f64 -> direction: the scaled gradient.",
                                    .states = {},
                                    .makes_direction = true});
    registration.add(std::make_unique<IdentityMinus>());
    registration.add(reference::kernel({kIdentityMinus, "r", "r", prepare_reference}));
    registration.add({.op = kIdentityMinus, .signature = {"f", "f"}, .prepare = prepare_host});
  }
};

}  // namespace
}  // namespace shampoo

STRATA_PLUGIN(optimizer, "shampoo", "0.1.0", "Apache-2.0",
              "Shampoo: momentum, preconditioned by the gradients' second moments over rows and columns (Gupta et al., "
              "2018). For matrices.",
              shampoo::ShampooFactory);
