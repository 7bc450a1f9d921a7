/// Muon: momentum, orthogonalised matrix by matrix (Jordan et al., "Muon: An optimizer for hidden layers in neural
/// networks", 2024). It keeps one state. It is meant for the weights of hidden layers; other parameters get another
/// optimizer by an [[optimizer.group]].

#include <algorithm>
#include <cmath>

#include "newton_schulz.hpp"
#include "strata/error.hpp"
#include "strata/optimizer.hpp"
#include "strata/update_kernel.hpp"

namespace muon {
namespace {

using namespace strata;

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
    const MatrixView matrices = view(context.parameter(), split_);
    const BufferId momentum =
        context.direction("momentum_direction", {{"momentum", momentum_}, {"nesterov", nesterov_}});
    const BufferId orthogonal =
        context.on_whole(momentum, matrices.matrices, [=, this](WholeContext& whole, const NamedBuffer& direction) {
          const auto size = [&](const Dims& dims) {
            double product = 1;
            for (const Dim& dim : dims) product *= static_cast<double>(whole.size(dim));
            return product;
          };
          return emit(whole, direction, matrices, scaled(size(matrices.inputs), size(matrices.outputs)));
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
    const Dims& dims = update.parameter.dims;
    const MatrixView matrices = view(update.parameter, split_);
    const auto place = [&](const Dims& part, std::size_t element) {
      // The row-major index along the dims of `part`, and their size.
      std::size_t index = 0;
      std::size_t count = 1;
      for (std::size_t d = dims.size(); d-- > 0;) {
        const auto size = static_cast<std::size_t>(update.shape[d]);
        if (find_dim(part, dims[d]) >= 0) {
          index += element % size * count;
          count *= size;
        }
        element /= size;
      }
      return std::pair(index, count);
    };
    const std::size_t count = place(matrices.matrices, 0).second;
    const std::size_t rows = place(matrices.inputs, 0).second;
    const std::size_t columns = place(matrices.outputs, 0).second;
    std::vector<std::vector<double>> each(count, std::vector<double>(rows * columns));
    const auto element_of = [&](std::size_t i) -> double& {
      return each[place(matrices.matrices, i).first]
                 [place(matrices.inputs, i).first * columns + place(matrices.outputs, i).first];
    };
    for (std::size_t i = 0; i < direction.size(); ++i) element_of(i) = direction[i];
    const NewtonSchulz iteration = scaled(static_cast<double>(rows), static_cast<double>(columns));
    for (std::vector<double>& matrix : each) iterate(matrix, static_cast<std::int64_t>(rows), iteration);
    for (std::size_t i = 0; i < direction.size(); ++i) direction[i] = element_of(i);
  }

  double momentum_;
  bool nesterov_;
  std::vector<std::string> split_;
  bool matches_adamw_;
  NewtonSchulz iteration_;
};

class MuonFactory final : public OptimizerFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& /*options*/) const override {
    provide_update<MomentumDirection>(
        registration,
        {.op = "momentum_direction",
         .documentation = "gradient, scale [] f64 -> direction, momentum (attributes momentum, nesterov): the moving "
                          "average of gradients, with Nesterov's look-ahead if nesterov is true.",
         .states = {kMomentum},
         .makes_direction = true});
  }

  [[nodiscard]] std::unique_ptr<Optimizer> create(const Options& options) const override {
    return std::make_unique<Muon>(options);
  }

 private:
  OptionSchema schema_{
      {.name = "momentum",
       .type = OptionType::number,
       .default_value = 0.95,
       .documentation = "Decay rate of the moving average of gradients.",
       .minimum = 0,
       .maximum = 0.999999},
      {.name = "nesterov",
       .type = OptionType::boolean,
       .default_value = true,
       .documentation = "Look ahead along the momentum (Nesterov)."},
      {.name = "steps",
       .type = OptionType::integer,
       .default_value = std::int64_t{5},
       .documentation = "Steps of the Newton-Schulz iteration.",
       .minimum = 1,
       .maximum = 30},
      {.name = "coefficients",
       .type = OptionType::numbers,
       .default_value = std::vector<double>{3.4445, -4.7750, 2.0315},
       .documentation = "Coefficients of X, X³ and X⁵ in each step."},
      {.name = "scale",
       .type = OptionType::word,
       .default_value = std::string("adamw"),
       .documentation = "Size of an update. adamw: 0.2 √max(inputs, outputs), so that it is as large as AdamW's, whose "
                        "learning rate and weight decay then fit (Liu et al., \"Muon is Scalable for LLM Training\", "
                        "2025). spectral: √max(1, outputs / inputs), as Jordan et al. published it.",
       .choices = {"adamw", "spectral"}},
      {.name = "split",
       .type = OptionType::words,
       .default_value = std::vector<std::string>{},
       .documentation = "Dimensions whose indices are matrices of their own, such as [\"heads\"]."}};
};

}  // namespace
}  // namespace muon

STRATA_PLUGIN(optimizer, "muon", "0.1.0", "Apache-2.0",
              "Muon: orthogonalised momentum for matrices (Jordan et al., 2024). One state, half of AdamW's memory.",
              muon::MuonFactory);
