#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "strata/matrix_piece.hpp"
#include "strata/registration.hpp"

namespace adafactor {

// The arithmetic of Adafactor on a piece of a parameter, for kernels of any precision.

/// Adds the squares of gradients begin to end of `runs`, plus epsilon, to the sums of their rows and columns.
template <class T, class Gradient>
void add_squares(const std::vector<strata::MatrixRun>& runs, std::size_t begin, std::size_t end,
                 const Gradient& gradient, T epsilon, double* sums) {
  for (std::size_t r = begin; r < end; ++r) {
    const strata::MatrixRun& run = runs[r];
    double shared = 0;
    double* const along = sums + run.first;
    for (std::int64_t i = 0; i < run.length; ++i) {
      const T g = gradient(run.begin + i);
      const auto square = static_cast<double>(g * g + epsilon);
      along[i] += square;
      shared += square;
    }
    sums[run.shared] += shared;
  }
}

/// Moves the moments of rows and columns towards the means of `sums`.
template <class Moment>
void move_moments(const double* sums, double beta, std::int64_t rows, std::int64_t columns, const Moment& row,
                  const Moment& column) {
  for (std::int64_t i = 0; i < rows; ++i) {
    row.set(i, beta * row.get(i) + (1 - beta) * sums[i] / static_cast<double>(columns));
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    column.set(j, beta * column.get(j) + (1 - beta) * sums[rows + j] / static_cast<double>(rows));
  }
}

/// Factors of the gradient for all rows, then for all columns: the direction is gradient · row factor · column factor.
template <class T, class Row, class Column>
void make_factors(std::int64_t rows, std::int64_t columns, const Row& row, const Column& column, T* factors) {
  double mean = 0;
  for (std::int64_t i = 0; i < rows; ++i) mean += row(i);
  mean /= static_cast<double>(rows);
  for (std::int64_t i = 0; i < rows; ++i) factors[i] = static_cast<T>(std::sqrt(mean / row(i)));
  for (std::int64_t j = 0; j < columns; ++j) factors[rows + j] = static_cast<T>(1 / std::sqrt(column(j)));
}

/// The sum of squares of the direction over some runs.
template <class T, class Gradient>
double direction_squares(const std::vector<strata::MatrixRun>& runs, std::size_t begin, std::size_t end,
                         const Gradient& gradient, const T* factors) {
  double total = 0;
  for (std::size_t r = begin; r < end; ++r) {
    const strata::MatrixRun& run = runs[r];
    const T* const along = factors + run.first;
    T of_run = 0;
    for (std::int64_t i = 0; i < run.length; ++i) {
      const T direction = gradient(run.begin + i) * along[i];
      of_run += direction * direction;
    }
    const auto shared = static_cast<double>(factors[run.shared]);
    total += static_cast<double>(of_run) * shared * shared;
  }
  return total;
}

/// Factors of a step, equal for all elements.
struct StepSize {
  /// Of the direction: learning rate, clipping and the parameter's length.
  double direction = 0;
  /// Of the parameter: learning rate and weight decay.
  double decay = 0;
};

/// `norm`, `squares`: sums of squares of the direction and of the parameter. `smallest`: 0 if steps are absolute.
inline StepSize step_size(double learning_rate, double norm, double squares, double elements, double clip,
                          double smallest, double weight_decay) {
  const double relative = smallest > 0 ? std::max(smallest, std::sqrt(squares / elements)) : 1;
  const double rate = learning_rate * relative;
  return {rate / std::max(1.0, std::sqrt(norm / elements) / clip), rate * weight_decay};
}

inline constexpr const char* kRowMoment = "row_moment";
inline constexpr const char* kColumnMoment = "column_moment";

/// The ops of one update, in their order.
inline constexpr const char* kSums = "factored_sums";
inline constexpr const char* kMoments = "factored_moments";
inline constexpr const char* kNorm = "factored_norm";
inline constexpr const char* kUpdate = "factored_update";

void register_reference_kernels(strata::Registration& registration);
void register_host_kernels(strata::Registration& registration);

}  // namespace adafactor
