#include "emulator/rough_arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace strata::cuda::emulator {
namespace {

constexpr int kFractionBits = 23;

thread_local Roughness roughness = Roughness::exact;

/// The sign of the error of an exponential. Neighbouring operands have the same sign, as if a GPU read the same table
/// row for them.
double side_of(float operand) {
  if (roughness == Roughness::high) return 1.0;
  if (roughness == Roughness::low) return -1.0;
  const std::uint32_t row = std::bit_cast<std::uint32_t>(operand) >> 12U;
  return (row * 2654435761U >> 31U) == 0 ? 1.0 : -1.0;
}

/// Adds an error of `units` units in the last place to `exact`. `side`: the sign, 1 or -1.
float off_by_units(double exact, double units, double side) {
  if (!is_rough() || exact == 0 || !std::isfinite(exact)) return static_cast<float>(exact);
  const double unit = std::ldexp(1.0, std::ilogb(exact) - kFractionBits);
  // Rounding the result adds up to half a unit, which counts towards the error.
  return static_cast<float>(exact + side * (units - 0.5) * unit);
}

/// The exponent of a positive normal number, and a power of two that is one. Products of 16-bit values and sums in f32
/// are far from the limits of f64.
int exponent_of(double value) { return static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52U) - 1023; }
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52U); }

}  // namespace

RoughArithmetic::RoughArithmetic(Roughness of_gpu) : before_(roughness) { roughness = of_gpu; }
RoughArithmetic::~RoughArithmetic() { roughness = before_; }

bool is_rough() { return roughness != Roughness::exact; }

float approximate_exp2(float exponent) {
  const float exact = std::exp2(exponent);
  if (!is_rough() || !std::isfinite(exact)) return exact;
  if (exact < std::numeric_limits<float>::min()) return 0.0F;
  return static_cast<float>(std::exp2(double{exponent}) * (1.0 + side_of(exponent) * (0x1p-22 - 0x1p-24)));
}

float approximate_quotient(float a, float b) {
  if (!is_rough()) return a / b;
  return off_by_units(double{a} / b, 2.0, -side_of(b));
}

float approximate_exp(float x) {
  if (!is_rough()) return std::exp(x);
  return off_by_units(std::exp(double{x}), 2.0 + std::floor(std::abs(1.173 * x)), side_of(x));
}

float matrix_unit_sum(std::span<const double> terms) {
  double sum = 0;
  double largest = 0;
  for (const double term : terms) {
    sum += term;
    largest = std::max(largest, std::abs(term));
  }
  if (!is_rough() || largest == 0 || !std::isfinite(sum)) return static_cast<float>(sum);
  // Terms count units of one bit below the last bit of the largest term, so the sum of a unit's terms fits 32 bits.
  const int last = exponent_of(largest) - kFractionBits - 1;
  const double units = power_of_two(-last);
  std::int32_t count = 0;
  for (const double term : terms) count += static_cast<std::int32_t>(term * units);
  const auto size = static_cast<std::uint32_t>(std::abs(count));
  const int cut = std::max(0, static_cast<int>(std::bit_width(size)) - kFractionBits - 1);
  const auto kept = static_cast<std::int32_t>(size >> static_cast<unsigned>(cut) << static_cast<unsigned>(cut));
  return static_cast<float>((count < 0 ? -kept : kept) * power_of_two(last));
}

}  // namespace strata::cuda::emulator
