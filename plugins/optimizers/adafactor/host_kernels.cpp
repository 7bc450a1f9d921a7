#include <cmath>
#include <memory>

#include "factored_step.hpp"
#include "strata/half.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/matrix_piece.hpp"
#include "strata/update_kernel.hpp"

namespace adafactor {

using namespace strata;

namespace {

/// Number of rows and columns together: one sum or factor each.
std::int64_t sums_of(const MatrixPiece& piece) { return piece.rows() + piece.columns(); }

/// Calls function(gradient of an element) with a reader for the type of the gradient.
template <class Function>
void with_gradient(const OpInstance& op, const KernelArguments& arguments, const Function& function) {
  const auto scale = static_cast<float>(*kernels::in<double>(arguments, 1));
  const auto largest = static_cast<float>(largest_gradient(op));
  const auto clipped = [=](float gradient) {
    const float scaled = gradient * scale;
    const float below = scaled < largest ? scaled : largest;
    return below > -largest ? below : -largest;
  };
  if (op.operands[0].dtype == DType::f32) {
    return function([=, from = kernels::in<float>(arguments, 0)](std::int64_t i) { return clipped(from[i]); });
  }
  const auto* bits = kernels::in<std::uint16_t>(arguments, 0);
  if (op.operands[0].dtype == DType::bf16) {
    return function([=](std::int64_t i) { return clipped(from_bf16(bits[i])); });
  }
  function([=](std::int64_t i) { return clipped(from_f16(bits[i])); });
}

PreparedKernel prepare_sums(const OpInstance& op, const KernelEnvironment& environment) {
  const auto blocks = std::make_shared<MatrixBlocks>(op);
  const std::int64_t bytes = blocks->count() * sums_of(blocks->piece()) * std::int64_t{sizeof(double)};
  const LaunchFunction launch = [op, blocks, epsilon = static_cast<float>(op.attributes.number("epsilon")),
                                 threads = environment.threads()](const KernelArguments& arguments) {
    auto* const partial = static_cast<double*>(arguments.workspace);
    const std::int64_t count = sums_of(blocks->piece());
    with_gradient(op, arguments, [&](const auto& gradient) {
      blocks->for_each(threads, [&](std::int64_t block, std::size_t begin, std::size_t end) {
        double* const sums = partial + block * count;
        std::fill_n(sums, count, 0.0);
        add_squares<float>(blocks->piece().runs(), begin, end, gradient, epsilon, sums);
      });
    });
    double* const sums = kernels::out<double>(arguments, 0);
    std::copy_n(partial, count, sums);
    for (std::int64_t block = 1; block < blocks->count(); ++block) {
      for (std::int64_t i = 0; i < count; ++i) sums[i] += partial[block * count + i];
    }
  };
  return {launch, bytes};
}

/// A moment that a kernel changes.
struct Moment {
  float* values;

  [[nodiscard]] double get(std::int64_t i) const { return values[i]; }
  void set(std::int64_t i, double value) const { values[i] = static_cast<float>(value); }
};

PreparedKernel prepare_moments(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[op, piece = MatrixPiece(op), decay = op.attributes.number("decay")](const KernelArguments& arguments) {
    if (!std::isfinite(*kernels::in<double>(arguments, 1))) return;
    const double beta = 1 - std::pow(update_step(op, arguments.context).updates, -decay);
    move_moments(kernels::in<double>(arguments, 0), beta, piece.rows(), piece.columns(),
                 Moment{kernels::out<float>(arguments, 0)}, Moment{kernels::out<float>(arguments, 1)});
  }};
}

/// Writes the factors of the direction to `factors`.
void write_factors(const MatrixPiece& piece, const KernelArguments& arguments, float* factors) {
  const auto* row = kernels::in<float>(arguments, 2);
  const auto* column = kernels::in<float>(arguments, 3);
  make_factors(
      piece.rows(), piece.columns(), [row](std::int64_t i) { return row[i]; },
      [column](std::int64_t j) { return column[j]; }, factors);
}

PreparedKernel prepare_norm(const OpInstance& op, const KernelEnvironment& environment) {
  const auto blocks = std::make_shared<MatrixBlocks>(op);
  kernels::WorkspacePlan workspace;
  const std::int64_t factors_at = workspace.reserve(sums_of(blocks->piece()) * std::int64_t{sizeof(float)});
  const std::int64_t partial_at = workspace.reserve(blocks->count() * std::int64_t{sizeof(double)});
  const LaunchFunction launch = [=, threads = environment.threads()](const KernelArguments& arguments) {
    auto* const factors = kernels::workspace_at<float>(arguments, factors_at);
    auto* const partial = kernels::workspace_at<double>(arguments, partial_at);
    write_factors(blocks->piece(), arguments, factors);
    with_gradient(op, arguments, [&](const auto& gradient) {
      blocks->for_each(threads, [&](std::int64_t block, std::size_t begin, std::size_t end) {
        partial[block] = direction_squares<float>(blocks->piece().runs(), begin, end, gradient, factors);
      });
    });
    double total = 0;
    for (std::int64_t block = 0; block < blocks->count(); ++block) total += partial[block];
    *kernels::out<double>(arguments, 0) = total;
  };
  return {launch, workspace.bytes()};
}

/// Rounds the master copy to the values.
void round_values(const OpInstance& op, const KernelArguments& arguments, std::int64_t begin, std::int64_t end) {
  const float* const from = kernels::out<float>(arguments, 1);
  auto* const to = kernels::out<std::uint16_t>(arguments, 0);
  const auto round_by = [&](auto&& round) { std::transform(from + begin, from + end, to + begin, round); };
  if (op.results[0].dtype == DType::bf16) return round_by([](float value) { return to_bf16(value); });
  round_by([](float value) { return to_f16(value); });
}

PreparedKernel prepare_update(const OpInstance& op, const KernelEnvironment& environment) {
  const auto blocks = std::make_shared<MatrixBlocks>(op);
  const std::vector<DecaySegment> segments = decay_segments(op);
  const double weight_decay = segments.empty() ? 0.0 : segments.front().weight_decay;
  const LaunchFunction launch = [=, threads = environment.threads()](const KernelArguments& arguments) {
    if (!std::isfinite(*kernels::in<double>(arguments, 1))) return;
    const MatrixPiece& piece = blocks->piece();
    const double elements = static_cast<double>(piece.rows()) * static_cast<double>(piece.columns());
    const StepSize step =
        step_size(update_step(op, arguments.context).learning_rate, *kernels::in<double>(arguments, 4),
                  *kernels::in<double>(arguments, 5), elements, op.attributes.number("clip"),
                  op.attributes.number("smallest"), weight_decay * arguments.context.weight_decay_factor);
    auto* const factors = static_cast<float*>(arguments.workspace);
    write_factors(piece, arguments, factors);
    const bool has_master = op.results.size() > 1;
    float* const parameter = kernels::out<float>(arguments, has_master ? 1 : 0);
    const auto keep = static_cast<float>(1 - step.decay);
    with_gradient(op, arguments, [&](const auto& gradient) {
      blocks->for_each(threads, [&](std::int64_t /*block*/, std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r) {
          const MatrixRun& run = piece.runs()[r];
          const float* const along = factors + run.first;
          const float shared = static_cast<float>(step.direction) * factors[run.shared];
          float* const values = parameter + run.begin;
          for (std::int64_t i = 0; i < run.length; ++i) {
            values[i] = keep * values[i] - shared * (gradient(run.begin + i) * along[i]);
          }
          if (has_master) round_values(op, arguments, run.begin, run.begin + run.length);
        }
      });
    });
  };
  return {launch, sums_of(blocks->piece()) * std::int64_t{sizeof(float)}};
}

}  // namespace

void register_host_kernels(Registration& registration) {
  registration.add({.op = kSums, .signature = {"rd", "d"}, .prepare = prepare_sums});
  registration.add({.op = kMoments, .signature = {"dd", "ff"}, .prepare = prepare_moments});
  registration.add({.op = kNorm, .signature = {"rdff", "d"}, .prepare = prepare_norm});
  registration.add({.op = kUpdate,
                    .signature = {"rdffdd", "r*"},
                    .prepare = prepare_update,
                    .unsupported = [](const OpInstance& op, const KernelEnvironment& /*environment*/) {
                      return UpdateResults(op, DType::f32).mismatch(op, 0);
                    }});
}

}  // namespace adafactor
