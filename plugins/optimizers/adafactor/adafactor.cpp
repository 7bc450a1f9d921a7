#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "factored_step.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"
#include "strata/matrix_piece.hpp"
#include "strata/op.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"

namespace adafactor {
namespace {

using namespace strata;

void register_ops(Registration& registration) {
  const auto add = [&](const char* name, const char* documentation, FlatSignature signature) {
    registration.add(std::make_unique<FlatOp>(name, documentation, std::move(signature)));
  };
  add(kSums,
      "gradient, scale [] f64 -> sums f64: sums of the squared gradient plus epsilon over every row and every column "
      "of "
      "the parameter (attributes epsilon; dims, rows, columns: the parameter's dims and those of its two sides).",
      {.inputs = 2, .elementwise = false, .has_own_sizes = true});
  add(kMoments,
      "sums f64, scale [] f64 -> row_moment, column_moment (attributes decay, dims, rows, columns): moving averages of "
      "the means over rows and columns. Their decay rate at update t is 1 - t^-decay.",
      {.inputs = 2, .outputs = 0, .elementwise = false, .has_own_sizes = true, .states = {kRowMoment, kColumnMoment}});
  add(kNorm,
      "gradient, scale [] f64, row_moment, column_moment -> [] f64: the sum of squares of the direction, the gradient "
      "divided by the root of the second moment, which is the product of the two means over the mean of all.",
      {.inputs = 4, .elementwise = false});
  add(kUpdate,
      "gradient, scale [] f64, row_moment, column_moment, norm [] f64, squares [] f64 -> values (attributes clip, "
      "smallest, weight_decay, decay_elements, lr_factor, dims, rows, columns): a step along the direction, whose root "
      "mean square is clipped. Its length is relative to that of the parameter, whose sum of squares is `squares`, if "
      "smallest is above 0: Shazeer, Stern, \"Adafactor: Adaptive Learning Rates with Sublinear Memory Cost\", ICML "
      "2018.",
      {.inputs = 6, .is_update = true});
}

/// Adafactor without momentum: the second moment of a matrix is kept as its means over rows and over columns (Shazeer,
/// Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", ICML 2018). Its states take as much memory
/// as one row and one column. A vector is a matrix of one column, whose second moment is kept whole.

class Adafactor final : public Optimizer {
 public:
  static OptionSchema schema() {
    return {option::number("decay", 0.8, 0.01, 10, "Update t keeps 1 - t^-decay of the second moment."),
            option::number("epsilon", 1e-30, 1e-37, 1, "Added to the square of every gradient."),
            {.name = "update_clip",
             .type = OptionType::number,
             .default_value = 1.0,
             .documentation = "Largest root mean square of a parameter's direction.",
             .minimum = 1e-6},
            option::boolean("relative_step", true, "Multiply the learning rate by the parameter's root mean square."),
            {.name = "smallest",
             .type = OptionType::number,
             .default_value = 1e-3,
             .documentation = "Smallest such factor, so that a parameter of zeros moves.",
             .minimum = 1e-30}};
  }

  explicit Adafactor(const Options& options)
      : decay_(options.number("decay")),
        epsilon_(options.number("epsilon")),
        clip_(options.number("update_clip")),
        smallest_(options.boolean("relative_step") ? options.number("smallest") : 0.0) {}

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& parameter) const override {
    const MatrixSides sides = matrix_sides(parameter);
    return {{kRowMoment, sides.rows}, {kColumnMoment, sides.columns}};
  }
  [[nodiscard]] bool wants_own_bucket() const override { return true; }
  [[nodiscard]] std::optional<std::string> refusal(const ParameterDescription& parameter) const override {
    if (parameter.dims.empty()) return "it has no dimension";
    return std::nullopt;
  }

  void update(UpdateContext& context) const override {
    const ParameterDescription& parameter = context.parameter();
    const MatrixSides sides = matrix_sides(parameter);
    const Attributes piece = matrix_attributes(parameter);
    const auto with = [&piece](const char* name, double value) {
      Attributes attributes = piece;
      attributes.set(name, value);
      return attributes;
    };
    const BufferId row = context.state(kRowMoment);
    const BufferId column = context.state(kColumnMoment);
    const BufferId gradient = context.gradient();
    const BufferId scale = context.scale();
    const BufferId sums =
        context.sums(kSums, {gradient, scale}, context.elements(sides.rows) + context.elements(sides.columns),
                     with("epsilon", epsilon_));
    context.change_states(kMoments, {sums, scale}, with("decay", decay_));
    const BufferId norm = context.sums(kNorm, {gradient, scale, row, column}, 1, piece);
    const BufferId squares = context.sums(ops::kSumOfSquares, {context.values()}, 1, {});
    Attributes attributes = with("clip", clip_);
    attributes.set("smallest", smallest_);
    context.update(kUpdate, std::move(attributes), UpdateOperands{.further = {row, column, norm, squares}});
  }

  void define(DefinedUpdate& update) const override {
    const std::size_t count = update.values.size();
    std::vector<double>& row = update.states.at(kRowMoment);
    std::vector<double>& column = update.states.at(kColumnMoment);
    std::vector<double> row_mean(row.size());
    std::vector<double> column_mean(column.size());
    for (std::size_t i = 0; i < count; ++i) {
      const double square = update.gradient[i] * update.gradient[i] + epsilon_;
      const auto [r, c] = place(update, i);
      row_mean[r] += square / static_cast<double>(column.size());
      column_mean[c] += square / static_cast<double>(row.size());
    }
    const double beta = 1 - std::pow(static_cast<double>(update.step), -decay_);
    double mean = 0;
    for (std::size_t r = 0; r < row.size(); ++r) {
      row[r] = beta * row[r] + (1 - beta) * row_mean[r];
      mean += row[r] / static_cast<double>(row.size());
    }
    for (std::size_t c = 0; c < column.size(); ++c) column[c] = beta * column[c] + (1 - beta) * column_mean[c];

    std::vector<double> direction(count);
    double norm = 0;
    double squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto [r, c] = place(update, i);
      direction[i] = update.gradient[i] / std::sqrt(row[r] * column[c] / mean);
      norm += direction[i] * direction[i] / static_cast<double>(count);
      squares += update.values[i] * update.values[i] / static_cast<double>(count);
    }
    const double length = smallest_ > 0 ? std::max(smallest_, std::sqrt(squares)) : 1;
    const double rate = update.learning_rate * length;
    for (std::size_t i = 0; i < count; ++i) {
      const double clipped = direction[i] / std::max(1.0, std::sqrt(norm) / clip_);
      update.values[i] -= rate * (clipped + update.weight_decay * update.values[i]);
    }
  }

 private:
  /// Row and column of an element of a row-major parameter.
  static std::pair<std::size_t, std::size_t> place(const DefinedUpdate& update, std::size_t element) {
    const Dims& dims = update.parameter.dims;
    const MatrixSides sides = matrix_sides(update.parameter);
    std::size_t index[] = {0, 0};
    std::size_t stride[] = {1, 1};
    for (std::size_t d = dims.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(update.shape[d]);
      const std::size_t side = find_dim(sides.rows, dims[d]) >= 0 ? 0 : 1;
      index[side] += element % size * stride[side];
      stride[side] *= size;
      element /= size;
    }
    return {index[0], index[1]};
  }

  double decay_;
  double epsilon_;
  double clip_;
  double smallest_;
};

class AdafactorFactory final : public FactoryOf<OptimizerFactory, Adafactor> {
 public:
  void provide(Registration& registration, const Options& /*options*/) const override {
    register_ops(registration);
    register_reference_kernels(registration);
    register_host_kernels(registration);
  }
};

}  // namespace
}  // namespace adafactor

STRATA_PLUGIN(optimizer, "adafactor", "0.1.0", "Apache-2.0",
              "Adafactor: a second moment kept as means over rows and columns (Shazeer, Stern, 2018).",
              adafactor::AdafactorFactory);
