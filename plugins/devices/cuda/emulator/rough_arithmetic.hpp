#pragma once

#include <cstdint>
#include <span>

/// \file
/// Arithmetic that a GPU does not round correctly. The emulator rounds it correctly by default. While a kernel runs for
/// a rough GPU, every result has the largest error that NVIDIA's documentation allows. So the tests of kernels' error
/// bounds do not depend on the accuracy of one real GPU.

namespace strata::cuda::emulator {

enum class Roughness : std::uint8_t {
  exact,
  mixed,  ///< exponentials and quotients are too large for some operands, too small for others
  high,   ///< exponentials are too large, quotients too small: both make a logistic function too small
  low     ///< the opposite
};

/// Sets the arithmetic of this thread for the lifetime of the object.
class RoughArithmetic {
 public:
  explicit RoughArithmetic(Roughness roughness);
  ~RoughArithmetic();
  RoughArithmetic(const RoughArithmetic&) = delete;
  RoughArithmetic& operator=(const RoughArithmetic&) = delete;

 private:
  Roughness before_;
};

[[nodiscard]] bool is_rough();

/// ex2.approx.ftz.f32 with a relative error up to 2^-22 (PTX ISA).
float approximate_exp2(float exponent);
/// __fdividef with an error up to 2 units in the last place (CUDA programming guide).
float approximate_quotient(float a, float b);
/// __expf with an error up to 2 + floor(|1.173 x|) units in the last place (CUDA programming guide).
float approximate_exp(float x);
/// Number of 16-bit products that a rough matrix unit adds to a sum at once.
inline constexpr int kTermsOfRoughUnit = 8;
/// Adds such products to an f32 sum as matrix units do: each term is truncated one bit below the last bit of the
/// largest term, and the sum is truncated to its last bit (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of
/// NVIDIA tensor cores", 2021; not documented by NVIDIA).
float matrix_unit_sum(std::span<const double> terms);

}  // namespace strata::cuda::emulator
