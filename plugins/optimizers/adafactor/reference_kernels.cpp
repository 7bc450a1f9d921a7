#include "factored_step.hpp"
#include "strata/matrix_piece.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/update_kernel.hpp"

namespace adafactor {

using namespace strata;
using reference::Launch;
using reference::Reader;
using reference::Work;
using reference::Writer;

namespace {

/// The scaled and clipped gradient of each element.
class Gradient {
 public:
  explicit Gradient(const Launch& launch)
      : gradient_(launch.operand(0)), scale_(launch.operand(1)[0]), largest_(largest_gradient(launch.op())) {}

  double operator()(std::int64_t i) const { return std::clamp(gradient_[i] * scale_, -largest_, largest_); }

 private:
  Reader gradient_;
  double scale_;
  double largest_;
};

Work prepare_sums(const OpInstance& op) {
  return [piece = MatrixPiece(op), epsilon = op.attributes.number("epsilon")](const Launch& launch) {
    std::vector<double> sums(static_cast<std::size_t>(piece.rows() + piece.columns()));
    add_squares<double>(piece.runs(), 0, piece.runs().size(), Gradient(launch), epsilon, sums.data());
    for (std::size_t i = 0; i < sums.size(); ++i) launch.result(0).overwrite(static_cast<std::int64_t>(i), sums[i]);
  };
}

Work prepare_moments(const OpInstance& op) {
  return [op, piece = MatrixPiece(op), decay = op.attributes.number("decay")](const Launch& launch) {
    if (!std::isfinite(launch.operand(1)[0])) return;
    std::vector<double> sums(static_cast<std::size_t>(piece.rows() + piece.columns()));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = launch.operand(0)[static_cast<std::int64_t>(i)];
    const double beta = 1 - std::pow(update_step(op, launch.context()).updates, -decay);
    move_moments(sums.data(), beta, piece.rows(), piece.columns(), launch.result(0), launch.result(1));
  };
}

std::vector<double> factors_of(const MatrixPiece& piece, const Launch& launch) {
  std::vector<double> factors(static_cast<std::size_t>(piece.rows() + piece.columns()));
  const Reader row = launch.operand(2);
  const Reader column = launch.operand(3);
  make_factors(
      piece.rows(), piece.columns(), [&](std::int64_t i) { return row[i]; }, [&](std::int64_t j) { return column[j]; },
      factors.data());
  return factors;
}

Work prepare_norm(const OpInstance& op) {
  return [piece = MatrixPiece(op)](const Launch& launch) {
    const std::vector<double> factors = factors_of(piece, launch);
    launch.result(0).overwrite(
        0, direction_squares(piece.runs(), 0, piece.runs().size(), Gradient(launch), factors.data()));
  };
}

Work prepare_update(const OpInstance& op) {
  return [op, piece = MatrixPiece(op), segments = decay_segments(op)](const Launch& launch) {
    if (!std::isfinite(launch.operand(1)[0])) return;
    const double elements = static_cast<double>(piece.rows()) * static_cast<double>(piece.columns());
    const double weight_decay = segments.empty() ? 0.0 : segments.front().weight_decay;
    const StepSize step =
        step_size(update_step(op, launch.context()).learning_rate, launch.operand(4)[0], launch.operand(5)[0], elements,
                  op.attributes.number("clip"), op.attributes.number("smallest"),
                  weight_decay * launch.context().weight_decay_factor);
    const std::vector<double> factors = factors_of(piece, launch);
    const Gradient gradient(launch);
    const Writer parameter = launch.result(op.results.size() - 1);
    const Writer values = launch.result(0);
    for (const MatrixRun& run : piece.runs()) {
      for (std::int64_t k = 0; k < run.length; ++k) {
        const std::int64_t i = run.begin + k;
        const double direction = gradient(i) * factors[static_cast<std::size_t>(run.shared)] *
                                 factors[static_cast<std::size_t>(run.first + k)];
        parameter.overwrite(i, parameter.get(i) - step.direction * direction - step.decay * parameter.get(i));
        if (op.results.size() > 1) values.overwrite(i, parameter.get(i));
      }
    }
  };
}

}  // namespace

void register_reference_kernels(Registration& registration) {
  registration.add(reference::kernel({kSums, "rd", "d", prepare_sums, false}));
  registration.add(reference::kernel({kMoments, "dd", "ss", prepare_moments, false}));
  registration.add(reference::kernel({kNorm, "rdss", "d", prepare_norm, false}));
  registration.add(reference::kernel({kUpdate, "rdssdd", "r*", prepare_update, false}));
}

}  // namespace adafactor
