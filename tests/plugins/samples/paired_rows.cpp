#include <cmath>
#include <memory>
#include <utility>

#include "strata/error.hpp"
#include "strata/matrix_piece.hpp"
#include "strata/op.hpp"
#include "strata/optimizer.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"
#include "strata/update_kernel.hpp"

/// An optimizer whose state has each dimension of a parameter's rows twice, as that of Shampoo or SOAP: the sum of the
/// products of every two rows' gradients. It divides the gradient of a row by the root of the row's own entry.

namespace {

using namespace strata;
using reference::Launch;
using reference::Work;

constexpr const char* kPairs = "pairs";

/// Calls body(element of the piece, its row).
template <class Body>
void for_each_element(const MatrixPiece& piece, const Body& body) {
  for (const MatrixRun& run : piece.runs()) {
    for (std::int64_t k = 0; k < run.length; ++k) {
      body(run.begin + k, run.shared < piece.rows() ? run.shared : run.first + k);
    }
  }
}

Work prepare_sums(const OpInstance& op) {
  return [piece = MatrixPiece(op)](const Launch& launch) {
    std::vector<double> sums(static_cast<std::size_t>(piece.rows()));
    for_each_element(piece, [&](std::int64_t i, std::int64_t row) {
      sums[static_cast<std::size_t>(row)] += launch.operand(0)[i] * launch.operand(1)[0];
    });
    for (std::size_t i = 0; i < sums.size(); ++i) launch.result(0).overwrite(static_cast<std::int64_t>(i), sums[i]);
  };
}

Work prepare_pairs(const OpInstance& op) {
  return [rows = reference::elements(op.operands[0])](const Launch& launch) {
    if (!std::isfinite(launch.operand(1)[0])) return;
    const reference::Reader sums = launch.operand(0);
    const reference::Writer pairs = launch.result(0);
    for (std::int64_t i = 0; i < rows * rows; ++i) {
      pairs.overwrite(i, pairs.get(i) + sums[i / rows] * sums[i % rows]);
    }
  };
}

Work prepare_update(const OpInstance& op) {
  return [op, piece = MatrixPiece(op)](const Launch& launch) {
    const double scale = launch.operand(1)[0];
    if (!std::isfinite(scale)) return;
    const double rate = update_step(op, launch.context()).learning_rate;
    const reference::Writer values = launch.result(op.results.size() - 1);
    for_each_element(piece, [&](std::int64_t i, std::int64_t row) {
      const double pair = launch.operand(2)[row * piece.rows() + row];
      values.overwrite(i, values.get(i) - rate * launch.operand(0)[i] * scale / std::sqrt(1 + pair));
      if (op.results.size() > 1) launch.result(0).overwrite(i, values.get(i));
    });
  };
}

class PairedRows final : public Optimizer {
 public:
  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& parameter) const override {
    const Dims rows = matrix_sides(parameter).rows;
    Dims twice = rows;
    twice.insert(twice.end(), rows.begin(), rows.end());
    return {{kPairs, twice}};
  }
  [[nodiscard]] bool wants_own_bucket() const override { return true; }

  void update(UpdateContext& context) const override {
    const Attributes piece = matrix_attributes(context.parameter());
    const std::int64_t rows = context.elements(matrix_sides(context.parameter()).rows);
    const BufferId sums = context.sums("paired_sums", {context.gradient(), context.scale()}, rows, piece);
    context.change_states("paired_products", {sums, context.scale()}, piece);
    context.update("paired_update", piece, UpdateOperands{.further = {context.state(kPairs)}});
  }

  void define(DefinedUpdate& update) const override {
    std::vector<double>& pairs = update.states.at(kPairs);
    const auto rows = static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(pairs.size()))));
    std::vector<double> sums(rows);
    for (std::size_t i = 0; i < update.values.size(); ++i) sums[row_of(update, i)] += update.gradient[i];
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] += sums[i / rows] * sums[i % rows];
    for (std::size_t i = 0; i < update.values.size(); ++i) {
      const double pair = pairs[row_of(update, i) * (rows + 1)];
      update.values[i] -= update.learning_rate * update.gradient[i] / std::sqrt(1 + pair);
    }
  }

 private:
  /// Row of an element of a row-major parameter.
  static std::size_t row_of(const DefinedUpdate& update, std::size_t element) {
    const Dims rows = matrix_sides(update.parameter).rows;
    std::size_t row = 0;
    std::size_t stride = 1;
    for (std::size_t d = update.shape.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(update.shape[d]);
      if (find_dim(rows, update.parameter.dims[d]) >= 0) {
        row += element % size * stride;
        stride *= size;
      }
      element /= size;
    }
    return row;
  }
};

class Factory final : public OptimizerFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  void provide(Registration& registration, const Options& /*options*/) const override {
    const auto add = [&](const char* name, FlatSignature signature, const char* operands, const char* results,
                         Work (*prepare)(const OpInstance&)) {
      registration.add(std::make_unique<FlatOp>(name, "A part of paired_rows.", std::move(signature)));
      registration.add(reference::kernel({name, operands, results, prepare, false}));
    };
    add("paired_sums", {.inputs = 2, .elementwise = false, .has_own_sizes = true}, "rd", "d", prepare_sums);
    add("paired_products", {.inputs = 2, .outputs = 0, .elementwise = false, .has_own_sizes = true, .states = {kPairs}},
        "dd", "s", prepare_pairs);
    add("paired_update", {.inputs = 3, .is_update = true}, "rds", "r*", prepare_update);
  }
  [[nodiscard]] std::unique_ptr<Optimizer> create(const Options& /*options*/) const override {
    return std::make_unique<PairedRows>();
  }

 private:
  OptionSchema schema_;
};

}  // namespace

STRATA_PLUGIN(optimizer, "paired_rows", "1.0.0", "Apache-2.0", "Gradient descent with a state of pairs of rows.",
              Factory);
