#pragma once

#include <cstdint>

namespace strata::host {

/// Factors of kernels' times, drawn from a log-normal distribution.
class KernelDraws {
 public:
  /// `spread`: standard deviation of a kernel's time, as a share of it. 0: every factor is 1.
  KernelDraws(double spread, std::uint64_t seed) : spread_(spread), seed_(seed) {}

  /// The factor of `kernels` kernels of a class of `ranks` ranks. The slowest of the ranks has the largest of as many
  /// draws.
  [[nodiscard]] double factor(double ranks, double kernels);

 private:
  double spread_;
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
};

}  // namespace strata::host
