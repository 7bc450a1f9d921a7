#include "simulate/kernel_draws.hpp"

#include <cmath>

#include "strata/random.hpp"

namespace strata::host {
namespace {

constexpr double kMostDeviations = 8;
constexpr double kQuantileError = 1e-6;
/// How many values random::word() has.
constexpr double kWords = 4294967296.0;

/// The value that a standard normal number is below with probability `share`.
double normal_quantile(double share) {
  double low = -kMostDeviations;
  double high = kMostDeviations;
  while (high - low > kQuantileError) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return low;
}

}  // namespace

double KernelDraws::factor(double ranks, double kernels) {
  if (spread_ <= 0) return 1;
  const double drawn = (random::word(random::mix(seed_), draws_++) + 0.5) / kWords;
  const double share = std::pow(drawn, 1 / ranks);
  return std::exp(spread_ / std::sqrt(kernels) * normal_quantile(share));
}

}  // namespace strata::host
